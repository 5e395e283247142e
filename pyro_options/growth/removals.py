"""When a component goes: nothing is lost without it, or another can do its work."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pyro_options.errors import check

from .events import Move
from .growable import growables
from .resizing import prune, reweight
from .scene import ABSENT, Scene
from .snapshot import Snapshot
from .verdict import Verdict


class Removal(Protocol):
    """Looks for a component to remove, removes it if its judge agrees, and leaves everything alone otherwise."""

    def __call__(self, scene: Scene, optimizer=None) -> list[Move]:
        """:returns: what was tried"""


def _without(log_weights: Tensor, gone: int) -> Tensor:
    """The same weights without one component, as good as zero."""
    return log_weights.index_fill(0, torch.tensor(gone, device=log_weights.device), ABSENT)


def _kept(log_weights: Tensor, gone: list[int]) -> Tensor:
    return log_weights[[k for k in range(len(log_weights)) if k not in gone]]


@dataclass(frozen=True)
class _Judged:
    """What prune and merge share: whom they try, and how much a removal may cost.

    A removal is accepted if the average log-likelihood of the rows, with the weights at their best, falls by less than
    ``noise`` standard errors, or that of all the data by less than ``tolerance``. Both ask for less than a birth must
    bring, so that what was born for a reason is not removed for the lack of one.

    :param noise: standard errors of the loss that count as none
    :param tolerance: nats lost by all the data together that count as none
    :param candidates: components to try at each check, the cheapest to replace first
    :param max_rows: rows to judge by at most
    """

    noise: float = 1.0
    tolerance: float = 1.0
    candidates: int = 2
    max_rows: int = 1024

    def __post_init__(self) -> None:
        check(self.noise >= 0, "noise >= 0", self.noise)
        check(self.tolerance >= 0, "tolerance >= 0", self.tolerance)
        check(self.candidates >= 1, "candidates >= 1", self.candidates)
        check(self.max_rows >= 2, "max_rows >= 2", self.max_rows)

    def _pairs(self, scene: Scene) -> list[tuple[int, int]]:
        """Components that cost least to replace, each with the one that would take over."""
        cost, heir = scene.usage.replacement_cost().min(-1)
        return [(i, int(heir[i])) for i in cost.argsort()[: self.candidates].tolist()]

    def _verdict(self, scene: Scene, before: Tensor, after: Tensor) -> Verdict:
        return Verdict.on_loss(before, after, self.tolerance / len(scene.data), self.noise)


@dataclass(frozen=True)
class Prune(_Judged):
    """Removes components that explain nothing which the others, with better weights, would not explain as well.

    One after the other, the cheapest to replace first, until ``candidates`` of them may not go; what all of them cost
    together is what counts.
    """

    def __call__(self, scene, optimizer=None):
        weights, rows = scene.require_data(), scene.judged(self.max_rows)
        if len(weights) < 2 or len(rows) < 2:
            return []
        likelihood = scene.likelihood(rows)
        weights = likelihood.refit(weights)
        before = likelihood(weights)
        tried: list[Move] = []
        for gone in scene.usage.replacement_cost().min(-1).values.argsort().tolist()[: len(weights) - 1]:
            lighter = likelihood.refit(_without(weights, gone))
            tried.append(Move("prune", (gone,), self._verdict(scene, before, likelihood(lighter))))
            if tried[-1].verdict.accepted:
                weights = lighter
            elif sum(not one.verdict.accepted for one in tried) == self.candidates:
                break
        removed = [one.components[0] for one in tried if one.verdict.accepted]
        if removed:
            prune(scene.modules, removed, optimizer)
            reweight(scene.modules, _kept(weights, removed))
        return tried


@dataclass(frozen=True)
class Merge(_Judged):
    """Lets one component take over the work of another: the average of both, fitted to the data of both.

    Finds what :class:`Prune` cannot: two halves of one cluster, neither of which would do without the other.

    :param steps: Adam steps of the fit
    :param learning_rate: of those steps
    :param fit_rows: rows to fit at most
    """

    steps: int = 50
    learning_rate: float = 0.05
    fit_rows: int = 256

    def __call__(self, scene, optimizer=None):
        weights = scene.require_data()
        rows = scene.judged(self.max_rows)
        if len(weights) < 2 or len(rows) < 2:
            return []
        likelihood = scene.likelihood(rows)
        before = likelihood(likelihood.refit(weights))
        tried = []
        for gone, heir in self._pairs(scene):
            undo = Snapshot(scene.modules, optimizer)
            joined = self._join(scene, weights, gone, heir)
            likelihood = scene.likelihood(rows)
            lighter = likelihood.refit(joined)
            verdict = self._verdict(scene, before, likelihood(lighter))
            tried.append(Move("merge", (gone,), verdict))
            if verdict.accepted:
                prune(scene.modules, [gone], optimizer)
                reweight(scene.modules, _kept(lighter, [gone]))
                break
            undo.restore()
        return tried

    def _join(self, scene: Scene, weights: Tensor, gone: int, heir: int) -> Tensor:
        """Lets ``heir`` do the work of both; returns the weights without the one that is to go."""
        share = float(scene.usage.posterior[heir] / scene.usage.posterior[[heir, gone]].sum().clamp(min=1e-12))
        for layer in growables(scene.modules):
            layer.blend(heir, gone, share)
        joined = weights.clone()
        joined[heir] = torch.logaddexp(weights[heir], weights[gone])
        fitted = scene.sample(scene.data, range(len(scene.data)), self.fit_rows)
        joined = _without(joined, gone)
        scene.fit([heir], fitted, joined, self.steps, self.learning_rate)
        return joined
