"""When to grow: pure functions of how components explain the data."""

from dataclasses import dataclass
from typing import Protocol

from pyro_options.errors import check
from pyro_options.handlers.observe import Usage


class Rule(Protocol):
    """Decides how many components to add."""

    def __call__(self, usage: Usage) -> int:
        """:returns: the number of births, 0 to leave things as they are"""


@dataclass(frozen=True)
class UsageRule:
    """The paper's rule: add a component when none of the K is used by less than δ / K of the data.

    :param delta: δ in (0, 1)
    :param measure: ``"likelihood"`` counts the data that a component makes most likely, as the paper does;
        ``"posterior"`` sums responsibilities, which also know the weights and what came before and after
    """

    delta: float = 0.5
    measure: str = "likelihood"

    def __post_init__(self) -> None:
        check(0 < self.delta < 1, "delta in (0, 1)", self.delta)
        check(self.measure in ("likelihood", "posterior"), 'measure "likelihood" or "posterior"', repr(self.measure))

    def __call__(self, usage: Usage) -> int:
        share = getattr(usage, self.measure)
        return 0 if bool((share < self.delta / len(share)).any()) else 1


@dataclass(frozen=True)
class Never:
    """Keeps K as it is."""

    def __call__(self, usage: Usage) -> int:
        return 0
