"""Schedules of the temperature and the entropy weight over epochs."""

from dataclasses import dataclass
from typing import Protocol

from pyro_options.errors import check


class Schedule(Protocol):
    """A function from the epoch to a value."""

    def __call__(self, epoch: int) -> float: ...


@dataclass(frozen=True)
class Constant:
    """The same value in every epoch."""

    value: float

    def __call__(self, epoch: int) -> float:
        return self.value


@dataclass(frozen=True)
class Exponential:
    """``max(floor, initial · rate ** epoch)``, the paper's schedule.

    >>> [Exponential(1.0, rate=0.5, floor=0.2)(epoch) for epoch in range(4)]
    [1.0, 0.5, 0.25, 0.2]

    :param rate: factor per epoch, in (0, 1]
    """

    initial: float
    rate: float = 0.995
    floor: float = 0.0

    def __post_init__(self) -> None:
        check(self.initial >= 0, "initial >= 0", self.initial)
        check(0 < self.rate <= 1, "rate in (0, 1]", self.rate)
        check(self.floor >= 0, "floor >= 0", self.floor)

    @classmethod
    def between(cls, initial: float, last: float, epochs: int) -> "Exponential":
        """From ``initial`` in the first epoch to ``last`` after so many.

        >>> Exponential.between(1.0, 0.01, epochs=2)(1)
        0.1
        """
        check(0 < last <= initial, "last in (0, initial]", last)
        return cls(initial, (last / initial) ** (1 / max(1, epochs)))

    def __call__(self, epoch: int) -> float:
        return max(self.floor, self.initial * self.rate**epoch)
