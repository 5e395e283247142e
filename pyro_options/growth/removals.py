"""Removals: prune a component that the others can replace, or merge two into one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from pyro_options.errors import check

from .events import Move
from .growable import growables
from .resizing import prune, reweight
from .scene import ABSENT, Baseline, RowLikelihood, Scene
from .snapshot import Snapshot
from .verdict import Verdict

#: rows trained on that judge a removal, even if fewer fit in a batch
FEWEST_TRAINED = 128


#: shares of a fit after which it is asked whether a merge may still be accepted. The loss does not fall evenly: what it
#: varies by, in nats, is allowed for, and a fit must seem in vain twice in a row
MILESTONES = (1 / 8, 1 / 4, 5 / 16, 3 / 8, 7 / 16, 1 / 2, 5 / 8, 3 / 4, 7 / 8)
NOISE = 3.0


class Removal(Protocol):
    """Tries components, removes those that pass its test, and undoes the other attempts bit for bit."""

    def __call__(self, scene: Scene, optimizer=None) -> list[Move]:
        """:returns: the moves that were tried, accepted or not"""


def without(log_weights: Tensor, gone: Sequence[int]) -> Tensor:
    """The same log weights with those of some components set to :data:`ABSENT`."""
    return log_weights.index_fill(-1, torch.tensor(list(gone), device=log_weights.device), ABSENT)


@dataclass(frozen=True)
class _Judged:
    """The order of candidates and the acceptance test that prune and merge have in common.

    The weights are refitted by EM. A removal is accepted if both hold:

    - held-out rows lose at most ``tolerance`` nats in all, together with what earlier removals have cost them, unless
      training has made up for it: losses of several checks do not add up;
    - the rows trained on lose at most ``tolerance`` nats more than the number of parameters of the component, which is
      the gain to be expected of a superfluous one (Akaike). This keeps a component that few rows use, none of which may
      be held out. Without held-out rows it is the only test.

    The tolerance is below the threshold of :class:`~pyro_options.growth.EvidenceRule`, so that a birth it accepted is
    not removed right away.

    :param tolerance: nats that the rows may lose
    :param candidates: components to try at each check, those with the lowest replacement cost first
    :param max_rows: the most rows to evaluate; of those trained on no more than fit in a batch, and their loss is
        extrapolated to all of them
    """

    tolerance: float = 3.0
    candidates: int = 2
    max_rows: int = 1024

    def __post_init__(self) -> None:
        check(self.tolerance >= 0, "tolerance >= 0", self.tolerance)
        check(self.candidates >= 1, "candidates >= 1", self.candidates)
        check(self.max_rows >= 2, "max_rows >= 2", self.max_rows)

    def _pairs(self, scene: Scene) -> list[tuple[int, int]]:
        """Components with the lowest replacement cost, each with the component that would replace it."""
        cost, heir = scene.usage.replacement_cost().min(-1)
        return [(i, int(heir[i])) for i in cost.argsort()[: self.candidates].tolist()]

    def judges(self, scene: Scene) -> "_Judges":
        """The rows that judge a removal."""
        held_out = None if scene.held_out is None else scene.judged(self.max_rows)
        most = min(self.max_rows, max(FEWEST_TRAINED, scene.batch_size))
        trained = scene.sample(scene.data, range(len(scene.data)), most)
        return _Judges(scene, held_out, trained, self.tolerance)


class _Judges:
    """Log-likelihoods of the rows that judge removals, before any removal of this check."""

    def __init__(self, scene: Scene, held_out: Any, trained: Any, tolerance: float):
        self.scene, self.held_out, self.trained, self.tolerance = scene, held_out, trained, tolerance
        self.enough = len(trained) >= 2 and (held_out is None or len(held_out) >= 2)
        self._size = scene.component_size() if self.enough else 0
        self._before: tuple[Tensor, ...] = ()
        self._lost = 0.0  # nats that earlier removals have cost the held-out rows

    def likelihoods(self) -> "_Likelihoods":
        """Their log-likelihood functions, with the components as they are now."""
        rows = [self.trained] if self.held_out is None else [self.held_out, self.trained]
        return _Likelihoods([self.scene.likelihood(one) for one in rows])

    def start(self, likelihoods: "_Likelihoods", log_weights: Tensor) -> None:
        """Remembers the log-likelihoods before a removal."""
        self._before = tuple(rows(log_weights) for rows in likelihoods.parts)
        baseline = self._baseline()
        if baseline is not None:
            self._lost = baseline.loss(float(self._before[0].double().sum()))

    def _baseline(self) -> Baseline | None:
        """What held-out rows are compared with; ``None`` if only some of them judge, and others at every check."""
        held_out = self.scene.held_out
        return None if held_out is None or len(self.held_out) < len(held_out) else self.scene.baseline

    def record(self, moves: list[Move]) -> None:
        """Remembers what the accepted ones have cost; the gain of the last is that of all of them together."""
        accepted, baseline = [move for move in moves if move.verdict.accepted], self._baseline()
        if accepted and baseline is not None:
            baseline.record(accepted[-1].verdict.gain)

    def verdict(self, likelihoods: "_Likelihoods", log_weights: Tensor, removed: int) -> Verdict:
        """The verdict on the removal of ``removed`` components since :meth:`start`."""
        judged, trained = likelihoods.parts[0], likelihoods.parts[-1]
        allowance = self.tolerance + removed * self._size
        if self.held_out is not None:
            verdict = Verdict.on_loss(self._before[0], judged(log_weights), self.tolerance - self._lost)
            if not verdict.accepted:
                return verdict
        loss = Verdict.on_loss(self._before[-1], trained(log_weights), math.inf)
        extrapolated = -loss.gain * len(self.scene.data) / len(self.trained)
        if extrapolated > allowance:
            return replace(loss, accepted=False)
        return loss if self.held_out is None else verdict

    def excess(self, joined: Tensor, removed: int) -> float:
        """Nats that the first rows to judge lose too many for a removal, with the components as they are now.

        :param joined: log weights, which are refitted
        """
        likelihoods = self.likelihoods()
        loss = float((self._before[0] - likelihoods.parts[0](likelihoods.refit(joined))).double().sum())
        if self.held_out is not None:
            return loss - (self.tolerance - self._lost)
        scale = len(self.scene.data) / len(self.trained)
        return loss * scale - (self.tolerance + removed * self._size)


class _Outlook:
    """Whether a fit is in vain: what it lacks would not be made up in the steps that are left at its latest pace."""

    def __init__(self, excess: Callable[[], float], steps: int):
        self._excess, self._steps = excess, steps
        self._milestones = {round(share * steps) for share in MILESTONES}
        self._last: tuple[int, float] | None = None
        self._doubtful = False  # whether it seemed in vain at the last milestone

    def __call__(self, step: int) -> bool:
        if step not in self._milestones:
            return False
        lacking, before = self._excess() - NOISE, self._last
        self._last = step, lacking
        if before is None:
            return False
        pace = max(0.0, (before[1] - lacking) / (step - before[0]))
        was_doubtful, self._doubtful = self._doubtful, lacking > pace * (self._steps - step)
        return was_doubtful and self._doubtful


@dataclass(frozen=True)
class _Likelihoods:
    """Log-likelihood functions of the judging rows: held-out rows first, if there are any, and rows trained on."""

    parts: list[RowLikelihood]

    def refit(self, log_weights: Tensor) -> Tensor:
        """Log weights refitted to the rows trained on: held-out rows may lack a component that is needed."""
        return self.parts[-1].refit(log_weights, steps=3)


@dataclass(frozen=True)
class Prune(_Judged):
    """Removes components whose data the others, with refitted weights, explain as well.

    One after the other, by increasing replacement cost, until ``candidates`` of them were refused. The loss is measured
    against the model before the first removal, so the cumulative loss is bounded.
    """

    def __call__(self, scene, optimizer=None):
        weights, judges = scene.require_data(), self.judges(scene)
        if weights.shape[-1] < 2 or not judges.enough:
            return []
        likelihoods = judges.likelihoods()
        weights = likelihoods.refit(weights)
        judges.start(likelihoods, weights)
        tried: list[Move] = []
        removed = 1
        for gone in scene.usage.replacement_cost().min(-1).values.argsort().tolist()[: weights.shape[-1] - 1]:
            lighter = likelihoods.refit(without(weights, [gone]))
            tried.append(Move("prune", (gone,), judges.verdict(likelihoods, lighter, removed)))
            if tried[-1].verdict.accepted:
                weights, removed = lighter, removed + 1
            elif sum(not one.verdict.accepted for one in tried) == self.candidates:
                break
        all_gone = [one.components[0] for one in tried if one.verdict.accepted]
        if all_gone:
            reweight(scene.modules, weights)  # before the others are gone: their mass must not become unassigned
            prune(scene.modules, all_gone, optimizer)
        judges.record(tried)
        return tried


@dataclass(frozen=True)
class Merge(_Judged):
    """Replaces two components by one: their weighted average, fitted to the data.

    Finds what :class:`Prune` cannot: two components that cover one half of a cluster each.

    :param steps: Adam steps of the fit
    :param learning_rate: of those steps
    :param fit_rows: the most rows to fit
    """

    steps: int = 100
    learning_rate: float = 0.02
    fit_rows: int = 256

    def __call__(self, scene, optimizer=None):
        weights, judges = scene.require_data(), self.judges(scene)
        if weights.shape[-1] < 2 or not judges.enough:
            return []
        likelihoods = judges.likelihoods()
        judges.start(likelihoods, likelihoods.refit(weights))
        tried = []
        for gone, heir in self._pairs(scene):
            undo = Snapshot(scene.modules, optimizer)
            joined = self._join(scene, judges, weights, gone, heir)
            likelihoods = judges.likelihoods()
            lighter = likelihoods.refit(joined)
            verdict = judges.verdict(likelihoods, lighter, removed=1)
            tried.append(Move("merge", (gone,), verdict))
            if verdict.accepted:
                prune(scene.modules, [gone], optimizer)
                reweight(scene.modules, scene.kept(lighter, [gone]))
                break
            undo.restore()
        judges.record(tried)
        return tried

    def _join(self, scene: Scene, judges: _Judges, weights: Tensor, gone: int, heir: int) -> Tensor:
        """Fits ``heir`` to replace both; returns the log weights with ``gone`` set to :data:`ABSENT`.

        A fit that cannot succeed any more is left unfinished.
        """
        share = float(scene.usage.posterior[heir] / scene.usage.posterior[[heir, gone]].sum().clamp(min=1e-12))
        for layer in growables(scene.modules):
            layer.blend(heir, gone, share)
        joined = weights.clone()
        joined[..., heir] = torch.logaddexp(weights[..., heir], weights[..., gone])
        if scene.row_per_component:  # what follows either of them follows the heir
            first = len(weights) - weights.shape[-1]
            own, other = math.log(max(share, 1e-12)), math.log(max(1 - share, 1e-12))
            joined[first + heir] = torch.logaddexp(own + joined[first + heir], other + joined[first + gone])
        fitted = scene.sample(scene.data, range(len(scene.data)), self.fit_rows)
        joined = without(joined, [gone])
        outlook = _Outlook(lambda: judges.excess(joined, removed=1), self.steps)
        scene.fit([heir], fitted, joined, self.steps, self.learning_rate, outlook)
        return joined
