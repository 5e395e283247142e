"""Removals: prune a component that the others can replace, or merge two into one."""

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
    """Tries components, removes those that pass its test, and undoes the other attempts bit for bit."""

    def __call__(self, scene: Scene, optimizer=None) -> list[Move]:
        """:returns: the moves that were tried, accepted or not"""


def _without(log_weights: Tensor, gone: int) -> Tensor:
    """The same log weights with that of one component set to :data:`ABSENT`."""
    return log_weights.index_fill(-1, torch.tensor(gone, device=log_weights.device), ABSENT)


@dataclass(frozen=True)
class _Judged:
    """The order of candidates and the acceptance test that prune and merge have in common.

    A removal is accepted if the average log-likelihood of the rows, with the weights refitted by EM, falls by less than
    ``noise`` standard errors, or the total over all the data by less than ``tolerance``. The defaults are below the
    thresholds of :class:`~pyro_options.growth.EvidenceRule`, so that a birth it accepted is not removed right away.

    :param noise: standard errors of the loss that are tolerated
    :param tolerance: nats that all the data together may lose
    :param candidates: components to try at each check, those with the lowest replacement cost first
    :param max_rows: the most rows to evaluate
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
        """Components with the lowest replacement cost, each with the component that would replace it."""
        cost, heir = scene.usage.replacement_cost().min(-1)
        return [(i, int(heir[i])) for i in cost.argsort()[: self.candidates].tolist()]

    def _verdict(self, scene: Scene, before: Tensor, after: Tensor) -> Verdict:
        return Verdict.on_loss(before, after, self.tolerance / len(scene.data), self.noise)


@dataclass(frozen=True)
class Prune(_Judged):
    """Removes components whose data the others, with refitted weights, explain as well.

    One after the other, by increasing replacement cost, until ``candidates`` of them were refused. The loss is measured
    against the model before the first removal, so the cumulative loss is bounded.
    """

    def __call__(self, scene, optimizer=None):
        weights, rows = scene.require_data(), scene.judged(self.max_rows)
        if weights.shape[-1] < 2 or len(rows) < 2:
            return []
        likelihood = scene.likelihood(rows)
        weights = likelihood.refit(weights)
        before = likelihood(weights)
        tried: list[Move] = []
        for gone in scene.usage.replacement_cost().min(-1).values.argsort().tolist()[: weights.shape[-1] - 1]:
            lighter = likelihood.refit(_without(weights, gone))
            tried.append(Move("prune", (gone,), self._verdict(scene, before, likelihood(lighter))))
            if tried[-1].verdict.accepted:
                weights = lighter
            elif sum(not one.verdict.accepted for one in tried) == self.candidates:
                break
        removed = [one.components[0] for one in tried if one.verdict.accepted]
        if removed:
            reweight(scene.modules, weights)  # before the others are gone: their mass must not become unassigned
            prune(scene.modules, removed, optimizer)
        return tried


@dataclass(frozen=True)
class Merge(_Judged):
    """Replaces two components by one: their weighted average, fitted to the data.

    Finds what :class:`Prune` cannot: two components that cover one half of a cluster each.

    :param steps: Adam steps of the fit
    :param learning_rate: of those steps
    :param fit_rows: the most rows to fit
    """

    steps: int = 50
    learning_rate: float = 0.05
    fit_rows: int = 256

    def __call__(self, scene, optimizer=None):
        weights = scene.require_data()
        rows = scene.judged(self.max_rows)
        if weights.shape[-1] < 2 or len(rows) < 2:
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
                reweight(scene.modules, scene.kept(lighter, [gone]))
                break
            undo.restore()
        return tried

    def _join(self, scene: Scene, weights: Tensor, gone: int, heir: int) -> Tensor:
        """Fits ``heir`` to replace both; returns the log weights with ``gone`` set to :data:`ABSENT`."""
        share = float(scene.usage.posterior[heir] / scene.usage.posterior[[heir, gone]].sum().clamp(min=1e-12))
        for layer in growables(scene.modules):
            layer.blend(heir, gone, share)
        joined = weights.clone()
        joined[..., heir] = torch.logaddexp(weights[..., heir], weights[..., gone])
        fitted = scene.sample(scene.data, range(len(scene.data)), self.fit_rows)
        joined = _without(joined, gone)
        scene.fit([heir], fitted, joined, self.steps, self.learning_rate)
        return joined
