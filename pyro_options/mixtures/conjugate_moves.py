"""Births, merges and a rule for conjugate components: coordinate ascent and the ELBO in closed form."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from pyro_options.distributions.mixture import Mixture
from pyro_options.errors import check
from pyro_options.growth.events import Move
from pyro_options.growth.resizing import prune, reweight
from pyro_options.growth.scene import ABSENT, Newborns, Scene
from pyro_options.growth.snapshot import Snapshot
from pyro_options.growth.usage import Usage
from pyro_options.growth.verdict import Verdict

#: key in ``Newborns.notes`` of the responsibilities ``(N, K)`` that a birth found
SHARES = "shares"


class Conjugate(Protocol):
    """Components with conjugate posteriors :math:`q(\\theta_k)`, and closed-form updates of q and of the prior."""

    def __call__(self) -> Any:
        """A distribution of batch shape ``(K,)`` whose ``log_prob`` is the expected log-density under q."""

    def absorb(self, rows: Tensor, responsibilities: Tensor, index: Sequence[int] | None = None) -> None:
        """Sets q to its optimum given the rows and their responsibilities."""

    def learn_prior(self) -> None:
        """Sets the hyperparameters of the prior to their optimum given q."""

    def loosen_prior(self) -> None:
        """Resets the hyperparameters that shrink components towards each other."""

    def divergence(self) -> Tensor:
        """KL(q || prior) of each component ``(K,)``."""


def _log_weights(shares: Tensor) -> Tensor:
    return torch.log(shares.mean(0).clamp(min=1e-12))


@torch.no_grad()
def _responsibilities(components: Conjugate, rows: Tensor, log_weights: Tensor) -> Tensor:
    return Mixture(log_weights, components()).responsibilities(rows)


@torch.no_grad()
def ascend(components: Conjugate, rows: Tensor, shares: Tensor, steps: int) -> Tensor:
    """Coordinate ascent on the ELBO over q, prior, weights and responsibilities in turn.

    :param shares: initial responsibilities ``(N, K)``
    :returns: the final responsibilities
    """
    for _ in range(steps):
        components.absorb(rows, shares)
        components.learn_prior()
        shares = _responsibilities(components, rows, _log_weights(shares))
    return shares


@torch.no_grad()
def bound(components: Conjugate, scene: Scene, log_weights: Tensor) -> float:
    """The ELBO of all rows given weights; components with the weight ``ABSENT`` add no divergence."""
    present = log_weights > ABSENT
    return float(scene.likelihood(scene.data)(log_weights).sum() - components.divergence()[present].sum())


@dataclass(frozen=True)
class BoundRule:
    """Accepts a birth if it raises the ELBO of all rows.

    The KL divergence of the new component from its prior penalizes its parameters, so no rows need to be held out. All
    components and their prior are first updated: the gain shows only after the component that used to cover the rows of
    the new one has adapted to its remaining rows.

    :param components: see :class:`Conjugate`
    :param min_gain: nats by which the ELBO must rise; it does not include the KL of the new stick, a few nats
    :param steps: of coordinate ascent before the comparison
    """

    components: Conjugate
    min_gain: float = 5.0
    steps: int = 40

    def propose(self, usage: Usage) -> int:
        """One birth at every check."""
        return 1

    def accept(self, newborns: Newborns) -> Verdict:
        """Accepts a birth that raises the ELBO."""
        rows, components = newborns.data, self.components
        likelihood = newborns.likelihood(rows)
        before = bound(components, newborns, likelihood.refit(newborns.trial_weights(0.0)))
        shares = newborns.notes.get(SHARES)
        if shares is None:
            new = len(newborns.index)
            shares = _responsibilities(components, rows, newborns.trial_weights(new / (newborns.index[0] + new)))
        components.loosen_prior()
        log_weights = _log_weights(ascend(components, rows, shares, self.steps))
        gain = bound(components, newborns, log_weights) - before
        return Verdict(gain > self.min_gain, gain, 0.0, log_weights)


@dataclass(frozen=True)
class SeedBirth:
    """Initializes a new component with the nearest neighbours of a seed row, followed by coordinate ascent.

    Several seeds are tried, mostly rows of low likelihood, and the one with the highest ELBO is kept. The other
    components are restored afterwards; the responsibilities found are passed to the rule in ``Newborns.notes``.

    :param components: see :class:`Conjugate`; a module
    :param seeds: number of seeds to try
    :param steps: of coordinate ascent
    :param neighbours: number of rows that a seed starts with, as a multiple of N / (K + 1)
    """

    components: Any
    seeds: int = 6
    steps: int = 8
    neighbours: float = 0.6

    @torch.no_grad()
    def __call__(self, newborns: Newborns) -> None:
        check(len(newborns.index) == 1, "one birth at a time", len(newborns.index))
        rows, new = newborns.data, newborns.index[0]
        weights = newborns.trial_weights(0.0)
        explained = newborns.likelihood(rows)(weights)
        badness = torch.argsort(torch.argsort(explained, descending=True)).float() + 1  # 1 for the best explained
        shares = _responsibilities(self.components, rows, weights)
        seeds = torch.multinomial(badness, min(self.seeds, len(rows))).tolist()
        found = [self._try(newborns, shares, seed) for seed in seeds]
        _, best = max(found, key=lambda pair: pair[0])
        self.components.absorb(rows, best[:, [new]], [new])
        newborns.notes[SHARES] = best

    def _try(self, newborns: Newborns, shares: Tensor, seed: int) -> tuple[float, Tensor]:
        """The ELBO reached from this seed, and the responsibilities there."""
        rows, undo = newborns.data, Snapshot([self.components])
        distance = (((rows - rows[seed]) / rows.std(0).clamp(min=1e-12)) ** 2).sum(-1)
        count = max(2, int(self.neighbours * len(rows) / shares.shape[1]))
        nearest = distance.topk(min(count, len(rows)), largest=False).indices
        shares = shares.clone()
        shares[nearest] = nn.functional.one_hot(nearest.new_tensor(newborns.index[0]), shares.shape[1]).to(shares)
        self.components.loosen_prior()
        shares = ascend(self.components, rows, shares, self.steps)
        reached = bound(self.components, newborns, _log_weights(shares))
        undo.restore()
        return reached, shares


@dataclass(frozen=True)
class BoundMerge:
    """Merges two components unless the ELBO falls by more than ``tolerance``.

    :param components: see :class:`Conjugate`
    :param tolerance: nats that the ELBO may fall; less than a birth must gain
    :param candidates: pairs to try at each check, by decreasing overlap of their responsibilities, after all components
        with less than one row
    :param least_overlap: the least cosine similarity of the responsibilities of a pair to try
    :param steps: of coordinate ascent before the comparison
    """

    components: Conjugate
    tolerance: float = 1.0
    candidates: int = 3
    least_overlap: float = 1e-3
    steps: int = 15

    def __call__(self, scene: Scene, optimizer=None) -> list[Move]:
        weights, rows = scene.require_data(), scene.data
        if len(weights) < 2:
            return []
        shares = _responsibilities(self.components, rows, weights)
        before = bound(self.components, scene, scene.likelihood(rows).refit(weights))
        tried: list[Move] = []
        for gone, heir in self._pairs(shares):
            undo = Snapshot(scene.modules, optimizer)
            joined = shares.clone()
            joined[:, heir] += joined[:, gone]
            prune(scene.modules, [gone], optimizer)
            joined = joined[:, [k for k in range(len(weights)) if k != gone]]
            lighter = _log_weights(ascend(self.components, rows, joined, self.steps))
            gain = bound(self.components, scene, lighter) - before
            tried.append(Move("merge", (gone,), Verdict(gain > -self.tolerance, gain, 0.0)))
            if tried[-1].verdict.accepted:
                reweight(scene.modules, lighter)
                break
            undo.restore()
        return tried

    def _pairs(self, shares: Tensor) -> list[tuple[int, int]]:
        """Pairs of a component to remove and the component that takes its rows."""
        common = (shares.T @ shares).fill_diagonal_(-1.0)
        pairs = [(k, int(common[k].argmax())) for k, n in enumerate(shares.sum(0).tolist()) if n < 1]
        norm = shares.norm(dim=0).clamp(min=1e-12)
        overlap = common / norm / norm.unsqueeze(-1)
        likely = torch.combinations(torch.arange(len(norm)))
        likely = likely[overlap[likely[:, 0], likely[:, 1]].argsort(descending=True)][: self.candidates]
        return pairs + [(gone, heir) for heir, gone in likely.tolist() if overlap[heir, gone] > self.least_overlap]
