"""Grow the truncation of a model and its guide while they train."""

import logging
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
from pyro_options.growth.scene import Newborns, Scene
from pyro_options.growth.snapshot import Snapshot

from .observe import ObserveMessenger

logger = logging.getLogger(__name__)


class GrowthMessenger(ObserveMessenger):
    """Observe, decide, resize: run the model inside this handler over the data, then call :meth:`step`.

    Works on any model that fulfills the contracts of :mod:`pyro_options.growth.contracts`.

    Example::

        growth = GrowthMessenger([model, guide], UsageRule(0.5), site="x")
        ...                                        # some steps of training
        with torch.no_grad(), growth:
            model(data)                            # observe
        growth.step(optimizer)                     # decide and resize

    :param modules: usually ``[model, guide]``
    :param rule: when to grow
    :param birth: how a new component starts
    :param removals: moves that take a component away, tried before a birth
    :param every: how many units of time (optimizer steps, in the training loop) lie between checks
    :param patience: checks that came to nothing double the wait for the next, up to ``patience`` times ``every``
    :param settle: in a training of known length nothing is born when less than ``settle`` times ``every`` is left
    :param max_components: never grow beyond
    :param site: observed site that the components explain
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
        self.every, self.patience, self.settle, self.max_components = every, patience, settle, max_components
        self.history: list[GrowthEvent] = []
        self._idle, self._last = 1, 0  # the wait in units of `every`, and the time of the last check

    @property
    def num_components(self) -> int:
        """K, the same in every growable layer."""
        return num_components(self.modules)

    def due(self, time: int) -> bool:
        """Whether it is time for a check."""
        return time - self._last >= self._idle * self.every

    def state_dict(self) -> dict:
        """What a checkpoint must keep besides the modules, as plain numbers."""
        return {"last": self._last, "idle": self._idle, "history": [event.to_dict() for event in self.history]}

    def load_state_dict(self, state: dict) -> None:
        """Goes on where :meth:`state_dict` left off; the modules are the caller's to restore."""
        self._last, self._idle = state["last"], state["idle"]
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
        """Decides on what was observed, resizes, and forgets the observation. A refused move is undone exactly.

        :param optimizer: carries its state over to the resized parameters
        :param model: for moves that look at data: ``model(rows, log_weights)`` with latent sites summed out
        :param data: the rows
        :param log_weights: mean log weights of the components
        :param held_out: rows to judge moves by, if not those of ``data`` that the move has not looked at
        :param batch_size: rows to look at together
        :param births: ``False`` only removes: what is born at the end of training would never be trained
        """
        scene = Scene(self.modules, self.usage(), self.site, log_weights, model, data, held_out, batch_size)
        self.reset()
        moves = self._remove(scene, optimizer)
        removed = [move.components[0] for move in moves if move.verdict.accepted]
        last = self.history[-1].num_born if self.history else 0
        in_vain = 0 < last <= len(removed)  # nothing is left of what was born at the check before
        if births and not in_vain:
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
        """The first removal that is accepted, and those that were refused before it."""
        moves: list[Move] = []
        for removal in self.removals:
            moves += removal(scene, optimizer)
            if any(move.verdict.accepted for move in moves):
                break
        return moves

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
