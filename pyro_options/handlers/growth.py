"""Grow the truncation of a model and its guide while they train."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from pyro_options.errors import check
from pyro_options.growth import Birth, Newborns, RandomBirth, Rule, Snapshot, Usage, UsageRule, grow, num_components

from .observe import ObserveMessenger

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GrowthEvent:
    """One decision: what was seen and what was done."""

    time: int
    usage: Usage
    num_born: int


class GrowthMessenger(ObserveMessenger):
    """Observe, decide, resize: run the model inside this handler over the data, then call :meth:`step`.

    Knows nothing of options: the modules need growable layers, and the observed site a distribution with
    ``component_log_prob`` and ``responsibilities``.

    Example::

        growth = GrowthMessenger([model, guide], UsageRule(0.5))
        ...                                        # some epochs of training
        with torch.no_grad(), growth:
            model(data)                            # observe
        growth.step(optimizer)                     # decide and resize

    :param modules: usually ``[model, guide]``
    :param rule: when to grow
    :param birth: how a new component starts
    :param every: how many units of time (epochs, in the training loop) lie between checks
    :param max_components: never grow beyond
    :param site: observed site that the components explain
    """

    def __init__(
        self,
        modules: Iterable[nn.Module],
        rule: Rule | None = None,
        birth: Birth | None = None,
        every: int = 10,
        max_components: int = 100,
        site: str = "actions",
    ):
        super().__init__(site)
        self.modules = list(modules)
        check(every >= 1, "every >= 1", every)
        check(max_components >= self.num_components, f"max_components >= {self.num_components}", max_components)
        self.rule: Rule = UsageRule() if rule is None else rule
        self.birth: Birth = RandomBirth() if birth is None else birth
        self.every, self.max_components = every, max_components
        self.history: list[GrowthEvent] = []

    @property
    def num_components(self) -> int:
        return num_components(self.modules)

    def due(self, time: int) -> bool:
        """Whether a check falls on this time."""
        return time > 0 and time % self.every == 0

    def step(
        self,
        optimizer=None,
        time: int = 0,
        model: Callable | None = None,
        data: Any = None,
        log_weights: Tensor | None = None,
    ) -> GrowthEvent:
        """Decides on what was observed, resizes, and forgets the observation. A refused birth is undone exactly.

        :param optimizer: carries its state over to the resized parameters
        :param model: for births and rules that look at data: ``model(rows, log_weights)`` with latent sites summed out
        :param data: the rows
        :param log_weights: mean log weights of the components
        """
        usage = self.usage()
        self.reset()
        before = self.num_components
        born = max(0, min(self.rule.propose(usage), self.max_components - before))
        if born:
            undo = Snapshot(self.modules, optimizer)
            grow(self.modules, born, optimizer)
            newborns = Newborns(range(before, before + born), self.modules, usage, log_weights, model, data, self.site)
            self.birth(newborns)
            if not self.rule.accept(newborns):
                undo.restore()
                born = 0
        if born:
            logger.info("time %d: grew from %d to %d components", time, before, before + born)
        event = GrowthEvent(time, usage, born)
        self.history.append(event)
        return event
