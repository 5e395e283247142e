"""Growth of mixtures whose components hold a conjugate belief: moves and their judge work in closed form."""

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

#: what a birth tells its judge: how it would divide the rows, ``(N, K)``
SHARES = "shares"


class Conjugate(Protocol):
    """Components that know the best belief for given rows, and the best prior for given beliefs."""

    def __call__(self) -> Any:
        """A distribution of batch shape ``(K,)`` with expected log-densities."""

    def absorb(self, rows: Tensor, responsibilities: Tensor, index: Sequence[int] | None = None) -> None:
        """Takes the best belief given the rows and who explains them."""

    def learn_prior(self) -> None:
        """Takes the best prior given the beliefs."""

    def loosen_prior(self) -> None:
        """Undoes what keeps components alike."""

    def divergence(self) -> Tensor:
        """KL of each belief from the prior ``(K,)``."""


def _log_weights(shares: Tensor) -> Tensor:
    return torch.log(shares.mean(0).clamp(min=1e-12))


@torch.no_grad()
def _responsibilities(components: Conjugate, rows: Tensor, log_weights: Tensor) -> Tensor:
    return Mixture(log_weights, components()).responsibilities(rows)


@torch.no_grad()
def ascend(components: Conjugate, rows: Tensor, shares: Tensor, steps: int) -> Tensor:
    """Coordinate ascent of beliefs, prior, weights and responsibilities, none of which lowers the bound.

    :param shares: responsibilities to start from ``(N, K)``
    :returns: the responsibilities at the end
    """
    for _ in range(steps):
        components.absorb(rows, shares)
        components.learn_prior()
        shares = _responsibilities(components, rows, _log_weights(shares))
    return shares


@torch.no_grad()
def bound(components: Conjugate, scene: Scene, log_weights: Tensor) -> float:
    """Lower bound on the log evidence of all rows, given weights; components that are absent cost nothing."""
    present = log_weights > ABSENT
    return float(scene.likelihood(scene.data)(log_weights).sum() - components.divergence()[present].sum())


@dataclass(frozen=True)
class BoundRule:
    """Keeps a birth that raises the bound on the evidence of all rows.

    The divergence of the new component from its prior is the price of its parameters, so no rows need to be held out.
    All components and their prior first adapt: what a birth is worth shows when the old component that covered its rows
    has withdrawn to the others.

    :param components: see :class:`Conjugate`
    :param min_gain: nats that a birth must bring; its stick costs a few
    :param steps: of coordinate ascent before the judgement
    """

    components: Conjugate
    min_gain: float = 5.0
    steps: int = 40

    def propose(self, usage: Usage) -> int:
        """One birth at every check."""
        return 1

    def accept(self, newborns: Newborns) -> Verdict:
        """Keeps a birth that raises the bound."""
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
        return Verdict(gain > self.min_gain, gain / len(rows), 0.0, log_weights)


@dataclass(frozen=True)
class SeedBirth:
    """Starts a new component with the rows nearest to one of them, and lets all components adapt to it.

    Of several seeds, mostly rows that are explained badly, the one stays from which the bound rises highest. The other
    components are put back afterwards: how rows would be divided is left to the judge as a note.

    :param components: see :class:`Conjugate`; a module
    :param seeds: rows to start from
    :param steps: of coordinate ascent
    :param neighbours: rows that a seed starts with, as multiples of N / (K + 1)
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
        """The bound that is reached from this seed, and how rows are divided there."""
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
    """Lets one component have the rows of two, unless the bound on the evidence falls.

    :param components: see :class:`Conjugate`
    :param tolerance: nats lost that count as none; less than a birth must bring
    :param candidates: pairs to try at each check, those whose rows agree most; components without a row come first
    :param least_overlap: cosine of the responsibilities of a pair that is worth trying
    :param steps: of coordinate ascent before the judgement
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
            tried.append(Move("merge", (gone,), Verdict(gain > -self.tolerance, gain / len(rows), 0.0)))
            if tried[-1].verdict.accepted:
                reweight(scene.modules, lighter)
                break
            undo.restore()
        return tried

    def _pairs(self, shares: Tensor) -> list[tuple[int, int]]:
        """Who could go, and who would take over."""
        common = (shares.T @ shares).fill_diagonal_(-1.0)
        pairs = [(k, int(common[k].argmax())) for k, n in enumerate(shares.sum(0).tolist()) if n < 1]
        norm = shares.norm(dim=0).clamp(min=1e-12)
        overlap = common / norm / norm.unsqueeze(-1)
        likely = torch.combinations(torch.arange(len(norm)))
        likely = likely[overlap[likely[:, 0], likely[:, 1]].argsort(descending=True)][: self.candidates]
        return pairs + [(gone, heir) for heir, gone in likely.tolist() if overlap[heir, gone] > self.least_overlap]
