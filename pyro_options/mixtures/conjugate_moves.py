"""Births, merges and a rule for conjugate components: coordinate ascent and the ELBO in closed form."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pyro_options.growth.events import Move
from pyro_options.growth.resizing import prune, reweight
from pyro_options.growth.scene import ABSENT, Newborns, Scene
from pyro_options.growth.snapshot import Snapshot
from pyro_options.growth.usage import Usage
from pyro_options.growth.verdict import Verdict

from .coordinate_ascent import Conjugate, ascend, mean_log_shares, responsibilities
from .cross_fitting import Folds

#: key in ``Newborns.notes`` of the responsibilities ``(N, K)`` that a birth found
SHARES = "shares"

#: what judges moves that the ELBO cannot decide, by default
FOLDS = Folds()


@torch.no_grad()
def bound(components: Conjugate, scene: Scene, log_weights: Tensor) -> float:
    """The ELBO of all rows given weights; components with the weight ``ABSENT`` add no divergence."""
    present = log_weights > ABSENT
    return float(scene.likelihood(scene.data)(log_weights).sum() - components.divergence()[present].sum())


@dataclass(frozen=True)
class BoundRule:
    """Accepts a birth if it raises the ELBO of all rows, or, where that changes little, their cross-fitted density.

    The KL divergence of the new component from its prior penalizes its parameters, so no rows need to be held out. All
    components and their prior are first updated: the gain shows only after the component that used to cover the rows of
    the new one has adapted to its remaining rows.

    :param components: see :class:`Conjugate`
    :param min_gain: nats by which the ELBO must rise; it does not include the KL of the new stick, a few nats
    :param steps: of coordinate ascent before the comparison
    :param folds: judge births that change the ELBO by at most ``min_gain``, if every new component has as many rows as
        parameters: otherwise a few outliers would decide. ``None`` to refuse these births
    :param min_fold_gain: nats by which the cross-fitted density of all rows together must rise
    :param births: new components at every check; both gains are for each of them
    """

    components: Conjugate
    min_gain: float = 5.0
    steps: int = 40
    folds: Folds | None = FOLDS
    min_fold_gain: float = 1.5
    births: int = 1

    def propose(self, usage: Usage) -> int:
        """``births`` at every check."""
        return self.births

    def accept(self, newborns: Newborns) -> Verdict:
        """Accepts a birth that raises the ELBO."""
        rows, components, undo = newborns.data, self.components, Snapshot(newborns.modules)
        likelihood = newborns.likelihood(rows)
        before = bound(components, newborns, likelihood.refit(newborns.trial_weights(0.0)))
        size = newborns.component_size()
        large = (responsibilities(components, rows, newborns.trial_weights(0.0)).sum(0) >= size).sum()
        shares = newborns.notes.get(SHARES)
        if shares is None:
            new = len(newborns.index)
            shares = responsibilities(components, rows, newborns.trial_weights(new / (newborns.index[0] + new)))
        components.loosen_prior()
        shares = ascend(components, rows, shares, self.steps)
        log_weights = mean_log_shares(shares)
        gain = bound(components, newborns, log_weights) - before
        clear = len(newborns.index) * self.min_gain
        if abs(gain) > clear or self.folds is None:
            return Verdict(gain > clear, gain, 0.0, log_weights)
        if (shares.sum(0) >= size).sum() < large + len(newborns.index):
            return Verdict(False, gain, 0.0, log_weights)
        after, adapted = self.folds(components, rows, shares), Snapshot(newborns.modules)
        undo.restore()
        prune(newborns.modules, newborns.index)
        without = self.folds(components, rows, responsibilities(components, rows, newborns.require_data()))
        adapted.restore()
        return Verdict.on_gain(without, after, len(newborns.index) * self.min_fold_gain, log_weights)


def _distances(rows: Tensor, row: Tensor) -> Tensor:
    """Squared distances from a row, in standard deviations of the data ``(N,)``."""
    return (((rows - row) / rows.std(0).clamp(min=1e-12)) ** 2).sum(-1)


def _clusters(rows: Tensor, number: int, steps: int = 10) -> Tensor:
    """Labels ``(N,)`` by k-means from a k-means++ start (Arthur and Vassilvitskii, 2007)."""
    distances = _distances(rows, rows[torch.randint(len(rows), ())]).unsqueeze(-1)
    while distances.shape[-1] < number:
        chances = distances.amin(-1) + 1e-12
        chosen = rows[torch.multinomial(chances / chances.sum(), 1).squeeze()]
        distances = torch.cat([distances, _distances(rows, chosen).unsqueeze(-1)], -1)
    labels = distances.argmin(-1)
    for _ in range(steps):
        shares = nn.functional.one_hot(labels, number).to(rows)
        centers = (shares.T @ rows) / shares.sum(0).clamp(min=1).unsqueeze(-1)
        labels = torch.stack([_distances(rows, one) for one in centers], -1).argmin(-1)
    return labels


@dataclass(frozen=True)
class SeedBirth:
    """Initializes new components with the nearest neighbours of seed rows, followed by coordinate ascent.

    Several seeds are tried, mostly rows of low likelihood, and the start with the highest ELBO is kept. If there is
    more than one new component, half of the starts are k-means clusters of all rows instead, which place the old
    components anew: they may be stuck where each covers two clusters, and no single birth helps. The other components
    are restored afterwards; the responsibilities found are passed to the rule in ``Newborns.notes``.

    :param components: see :class:`Conjugate`; a module
    :param seeds: number of starts to try
    :param steps: of coordinate ascent, for each new component
    :param neighbours: number of rows that a seed starts with, as a multiple of N / (K + 1)
    """

    components: Any
    seeds: int = 6
    steps: int = 8
    neighbours: float = 0.6

    @torch.no_grad()
    def __call__(self, newborns: Newborns) -> None:
        rows, new = newborns.data, list(newborns.index)
        weights = newborns.trial_weights(0.0)
        explained = newborns.likelihood(rows)(weights)
        badness = torch.argsort(torch.argsort(explained, descending=True)).float() + 1  # 1 for the best explained
        shares = responsibilities(self.components, rows, weights)
        seeds = torch.multinomial(badness, min(self.seeds * len(new), len(rows))).split(len(new))
        starts = [self._around(newborns, shares, seed) for seed in seeds]
        if len(new) > 1:
            anew = (_clusters(rows, shares.shape[1]) for _ in starts[len(starts) // 2 :])
            starts[len(starts) // 2 :] = [nn.functional.one_hot(one, shares.shape[1]).to(shares) for one in anew]
        _, best = max((self._try(newborns, start) for start in starts), key=lambda pair: pair[0])
        self.components.absorb(rows, best[:, new], new)
        newborns.notes[SHARES] = best

    def _around(self, newborns: Newborns, shares: Tensor, seeds: Tensor) -> Tensor:
        """Responsibilities with those of the nearest neighbours of each seed moved to a new component."""
        rows, shares = newborns.data, shares.clone()
        count = max(2, int(self.neighbours * len(rows) / shares.shape[1]))
        for seed, child in zip(seeds.tolist(), newborns.index):
            nearest = _distances(rows, rows[seed]).topk(min(count, len(rows)), largest=False).indices
            shares[nearest] = nn.functional.one_hot(nearest.new_tensor(child), shares.shape[1]).to(shares)
        return shares

    def _try(self, newborns: Newborns, shares: Tensor) -> tuple[float, Tensor]:
        """The ELBO reached from these responsibilities, and those reached."""
        rows, undo = newborns.data, Snapshot([self.components])
        self.components.loosen_prior()
        shares = ascend(self.components, rows, shares, self.steps * len(newborns.index))
        reached = bound(self.components, newborns, mean_log_shares(shares))
        undo.restore()
        return reached, shares


@dataclass(frozen=True)
class BoundMerge:
    """Merges two components unless the ELBO falls by more than ``tolerance``.

    A merge that raises it by less than ``clear`` must not lower the cross-fitted density by more than that either.

    :param components: see :class:`Conjugate`
    :param tolerance: nats that either may fall; less than a birth must gain
    :param candidates: pairs to try at each check, by decreasing overlap of their responsibilities, after all components
        with less than one row
    :param least_overlap: the least cosine similarity of the responsibilities of a pair to try
    :param steps: of coordinate ascent before the comparison
    :param folds: judge merges that the ELBO accepts but not clearly; ``None`` for the ELBO alone
    :param clear: nats by which the ELBO must rise for a merge that folds need not judge
    """

    components: Conjugate
    tolerance: float = 1.0
    candidates: int = 3
    least_overlap: float = 1e-3
    steps: int = 15
    folds: Folds | None = FOLDS
    clear: float = 5.0

    def __call__(self, scene: Scene, optimizer=None) -> list[Move]:
        weights, rows = scene.require_data(), scene.data
        if len(weights) < 2:
            return []
        shares = responsibilities(self.components, rows, weights)
        before = bound(self.components, scene, scene.likelihood(rows).refit(weights))
        tried: list[Move] = []
        apart: Tensor | None = None  # cross-fitted density of the rows before any merge
        for gone, heir in self._pairs(shares):
            undo = Snapshot(scene.modules, optimizer)
            joined = shares.clone()
            joined[:, heir] += joined[:, gone]
            prune(scene.modules, [gone], optimizer)
            joined = joined[:, [k for k in range(len(weights)) if k != gone]]
            joined = ascend(self.components, rows, joined, self.steps)
            lighter = mean_log_shares(joined)
            gain = bound(self.components, scene, lighter) - before
            verdict = Verdict(gain > -self.tolerance, gain, 0.0)
            doubtful = -self.tolerance < gain < self.clear and float(shares[:, gone].sum()) >= 1
            if doubtful and self.folds is not None:
                together, merged = self.folds(self.components, rows, joined), Snapshot(scene.modules, optimizer)
                if apart is None:
                    undo.restore()
                    apart = self.folds(self.components, rows, shares)
                    merged.restore()
                verdict = Verdict.on_loss(apart, together, self.tolerance)
            tried.append(Move("merge", (gone,), verdict))
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
