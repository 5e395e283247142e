"""A handler that grows the truncation of a model and its guide during training."""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

from torch import Tensor, nn

from pyro_options.errors import check
from pyro_options.growth.births import Birth, RandomBirth
from pyro_options.growth.events import GrowthEvent, Move
from pyro_options.growth.removals import Removal
from pyro_options.growth.resizing import grow, num_components, reweight
from pyro_options.growth.rules import Rule, UsageRule
from pyro_options.growth.scene import Baseline, Newborns, Scene
from pyro_options.growth.snapshot import Snapshot

from .observe import ObserveMessenger

logger = logging.getLogger(__name__)

#: checks that only remove components in the time of a check that also adds
REMOVAL_CHECKS = 4


class GrowthMessenger(ObserveMessenger):
    """Observes usage, decides on moves, resizes: run the model on the data inside this handler, then :meth:`step`.

    Works on any model that implements the protocols of :mod:`pyro_options.growth.contracts`.

    Example::

        growth = GrowthMessenger([model, guide], UsageRule(0.5), site="x")
        ...                                        # some steps of training
        with torch.no_grad(), growth:
            model(data)                            # observe
        growth.step(optimizer)                     # decide and resize

    :param modules: usually ``[model, guide]``
    :param rule: proposes births, accepts or refuses them
    :param birth: initializes new components
    :param removals: moves that remove components, tried before a birth
    :param every: units of time (optimizer steps, in the training loop) between checks
    :param patience: a check without an accepted birth doubles the wait for the next, up to ``patience`` times ``every``
    :param settle: no births if less than ``settle`` times ``every`` is left of the training: they could not be trained
    :param length: of the training, in the units of ``every``; ``None`` if it is not known
    :param max_components: the largest K
    :param site: the observed site, whose distribution is a :class:`~pyro_options.growth.ComponentLikelihood`
    """

    def __init__(
        self,
        modules: Iterable[nn.Module],
        rule: Rule | None = None,
        birth: Birth | None = None,
        removals: Sequence[Removal] = (),
        every: int = 40,
        patience: int = 1,
        settle: int = 1,
        max_components: int = 100,
        length: int | None = None,
        *,
        site: str,
    ):
        super().__init__(site)
        self.modules = list(modules)
        check(every >= 1, "every >= 1", every)
        check(patience >= 1, "patience >= 1", patience)
        check(max_components >= self.num_components, f"max_components >= {self.num_components}", max_components)
        self.rule: Rule = UsageRule() if rule is None else rule
        self.birth: Birth = RandomBirth() if birth is None else birth
        self.removals = tuple(removals)
        check(settle >= 0, "settle >= 0", settle)
        check(length is None or length >= 1, "length >= 1", length)
        self.every, self.patience, self.settle, self.max_components = every, patience, settle, max_components
        self.length = length
        self.history: list[GrowthEvent] = []
        self._idle, self._last = 1, 0  # the wait in units of `every`, and the time of the last check
        self.baseline = Baseline()

    @property
    def num_components(self) -> int:
        """K, the same in every growable layer."""
        return num_components(self.modules)

    def due(self, time: int, births: bool = True) -> bool:
        """Whether a check is due at ``time``.

        :param births: ``False`` for a check that only removes, of which there are :data:`REMOVAL_CHECKS` in the time of
            one that also adds: between them the others adapt to what was removed. So it is near the end of a training
            of known ``length``, when births have stopped
        """
        births = births and (self.length is None or self.enough_time(self.length - time))
        wait = self._idle * self.every if births else max(1, self.every // REMOVAL_CHECKS)
        return time - self._last >= wait

    def enough_time(self, left: int) -> bool:
        """Whether a component that is born when ``left`` is left of the training can still be trained."""
        return left >= self.settle * self.every

    def state_dict(self) -> dict:
        """What a checkpoint must hold besides the modules, as plain numbers."""
        history = [event.to_dict() for event in self.history]
        after = None if math.isinf(self.baseline.after) else self.baseline.after
        balance = {"debt": self.baseline.debt, "after": after}
        return {"last": self._last, "idle": self._idle, "history": history} | balance

    def load_state_dict(self, state: dict) -> None:
        """Restores the result of :meth:`state_dict`; restoring the modules is up to the caller."""
        self._last, self._idle = state["last"], state["idle"]
        after = math.inf if state.get("after") is None else state["after"]
        self.baseline = Baseline(state.get("debt", 0.0), after)
        self.history = [GrowthEvent.from_dict(event) for event in state["history"]]

    def step(
        self,
        optimizer=None,
        time: int = 0,
        model: Callable | None = None,
        data: Any = None,
        log_weights: Tensor | None = None,
        held_out: Any = None,
        births: bool = True,
        batch_size: int = 128,
    ) -> GrowthEvent:
        """One check on the observed usage, which is then reset. A refused move is undone bit for bit.

        :param optimizer: its state is resized with the parameters
        :param time: of this check, in the units of ``every``
        :param model: ``model(rows, log_weights)`` with latent sites summed out, for moves that evaluate data
        :param data: the rows
        :param log_weights: mean log weights, of the shape of :meth:`WeightsPosterior.mean_log_weights`
        :param held_out: rows on which moves are evaluated; by default those of ``data`` that a move was not fitted to
        :param births: ``False`` allows removals only, as at the end of a training of known ``length``
        :param batch_size: rows to evaluate at a time
        """
        scene = Scene(
            *(self.modules, self.usage(), self.site, log_weights, model, data, held_out, batch_size, self.baseline),
            workers=self.workers,
        )
        self.reset()
        moves = self._remove(scene, optimizer)
        removed = [move.components[0] for move in moves if move.verdict.accepted]
        in_vain = self._born_in_vain(scene, removed)  # do not try the same again now
        early = self.length is None or self.enough_time(self.length - time)
        if births and early and not in_vain:
            moves += self._grow(scene.without(removed), optimizer)
        event = GrowthEvent(time, scene.usage, tuple(moves))
        self._idle = 1 if event.num_born else min(2 * self._idle, self.patience)
        self._last = time
        if event.num_born or event.num_removed:
            sizes = event.num_born, event.num_removed, self.num_components
            logger.info("time %d: %d born, %d removed: K = %d", time, *sizes)
        self.history.append(event)
        return event

    def _remove(self, scene: Scene, optimizer) -> list[Move]:
        """Tries removals in turn until one of them is accepted; returns all moves that were tried."""
        moves: list[Move] = []
        for removal in self.removals:
            moves += removal(scene, optimizer)
            if any(move.verdict.accepted for move in moves):
                break
        return moves

    def _born_in_vain(self, scene: Scene, removed: Sequence[int]) -> bool:
        """Whether no birth of the previous check has added a component.

        A new component may be the one removed, or the one that takes over the rows of another that is removed, as of
        two halves of a split either may go.
        """
        born = set(self.history[-1].born) if self.history else set()
        if not born or not removed:
            return False
        heirs = scene.usage.replacement_cost()[list(removed)].min(-1).indices
        return born <= {*removed, *heirs.tolist()}

    def _grow(self, scene: Scene, optimizer) -> list[Move]:
        before = self.num_components
        born = max(0, min(self.rule.propose(scene.usage), self.max_components - before))
        if not born:
            return []
        undo = Snapshot(self.modules, optimizer)
        grow(self.modules, born, optimizer)
        index = range(before, before + born)
        newborns = Newborns(**{f.name: getattr(scene, f.name) for f in fields(scene)}, index=index)
        self.birth(newborns)
        verdict = self.rule.accept(newborns)
        if not verdict.accepted:
            undo.restore()
        elif verdict.log_weights is not None:
            reweight(self.modules, verdict.log_weights)
        return [Move("birth", tuple(index), verdict)]
