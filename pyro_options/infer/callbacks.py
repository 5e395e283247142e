"""Callbacks: what a training tells others about its course."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyro_options.errors import check
from pyro_options.growth.events import GrowthEvent

if TYPE_CHECKING:
    from .trainer import Trainer


@dataclass(frozen=True)
class Phase:
    """A part of :func:`~pyro_options.discover`, which trains one model.

    In this order: ``capacity`` (the search for network widths and shrinkage), ``restart``, ``training`` (the best of
    them goes on), ``hard start`` (another training, from hard options, if asked for), ``other start`` and
    ``one policy`` (the comparisons of :class:`~pyro_options.skills.Trust`).
    """

    name: str
    number: int = 1
    count: int = 1
    detail: str = ""  # what is tried, such as "hidden = (64,)"

    def __str__(self) -> str:
        number = f" {self.number} of {self.count}" if self.count > 1 else ""
        return f"{self.name}{number}" + (f", {self.detail}" if self.detail else "")


class Callback:
    """Is told of the course of a training; every method does nothing by default.

    Derive from it, implement what you need, and pass objects to :class:`~pyro_options.infer.Trainer` or to
    :func:`~pyro_options.discover`, as ``callbacks=[...]``. Methods must not change the trainer, nor draw from torch's,
    numpy's or Python's global random numbers: the result would change, and would not be the same when resumed.
    """

    def on_phase(self, phase: Phase) -> None:
        """A phase of :func:`~pyro_options.discover` begins; a trainer on its own has none."""

    def on_start(self, trainer: "Trainer", epochs: int) -> None:
        """A call of :meth:`Trainer.run` begins, for ``epochs`` epochs; ``trainer.epoch`` are done."""

    def on_status(self, status: str) -> None:
        """What runs now besides updates, such as ``growth check``; empty when it is over."""

    def on_step(self, trainer: "Trainer") -> None:
        """An update was made or skipped."""

    def on_epoch(self, trainer: "Trainer") -> None:
        """An epoch is over; ``trainer.history`` has its figures. A growth check may follow."""

    def on_growth(self, trainer: "Trainer", event: GrowthEvent) -> None:
        """A growth check is over, whether or not K has changed."""

    def on_end(self, trainer: "Trainer") -> None:
        """The run is over, or was stopped by an error or an interruption."""


class Callbacks(Callback):
    """Tells several callbacks, in their order."""

    def __init__(self, callbacks: Iterable[Callback] = ()):
        self.members = tuple(callbacks)
        for one in self.members:
            fix = "Derive your class from pyro_options.infer.Callback and pass an object of it."
            check(isinstance(one, Callback), "callbacks as Callback objects", repr(one), fix)

    def on_phase(self, phase: Phase) -> None:
        for one in self.members:
            one.on_phase(phase)

    def on_start(self, trainer: "Trainer", epochs: int) -> None:
        for one in self.members:
            one.on_start(trainer, epochs)

    def on_status(self, status: str) -> None:
        for one in self.members:
            one.on_status(status)

    def on_step(self, trainer: "Trainer") -> None:
        for one in self.members:
            one.on_step(trainer)

    def on_epoch(self, trainer: "Trainer") -> None:
        for one in self.members:
            one.on_epoch(trainer)

    def on_growth(self, trainer: "Trainer", event: GrowthEvent) -> None:
        for one in self.members:
            one.on_growth(trainer, event)

    def on_end(self, trainer: "Trainer") -> None:
        for one in self.members:
            one.on_end(trainer)
