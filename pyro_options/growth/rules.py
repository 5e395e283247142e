"""When to grow: propose births from how components explain the data, and accept or refuse what came of them."""

from dataclasses import dataclass
from typing import Protocol

from pyro_options.errors import check

from .scene import Newborns
from .usage import Usage
from .verdict import Verdict


class Rule(Protocol):
    """Plans births and judges them."""

    def propose(self, usage: Usage) -> int:
        """:returns: the number of births, 0 to leave things as they are"""

    def accept(self, newborns: Newborns) -> Verdict:
        """Whether to keep new components; a refused birth is undone exactly."""


@dataclass(frozen=True)
class UsageRule:
    """The paper's rule: add a component when none of the K is used by less than δ / K of the data.

    It has a known weak spot: usage of 0.76 and 0.24 at K = 2, δ = 0.5 stops growth for good.

    >>> import torch
    >>> even, uneven = torch.tensor([0.5, 0.5]), torch.tensor([0.76, 0.24])
    >>> [UsageRule().propose(Usage(share, share, 100)) for share in (even, uneven)]
    [1, 0]

    :param delta: δ in (0, 1)
    :param measure: ``"likelihood"`` counts the data that a component makes most likely, as the paper does;
        ``"posterior"`` sums responsibilities, which also know the weights and what came before and after
    """

    delta: float = 0.5
    measure: str = "likelihood"

    def __post_init__(self) -> None:
        check(0 < self.delta < 1, "delta in (0, 1)", self.delta)
        check(self.measure in ("likelihood", "posterior"), 'measure "likelihood" or "posterior"', repr(self.measure))

    def propose(self, usage: Usage) -> int:
        """One birth unless a component is used by less than δ / K."""
        share = getattr(usage, self.measure)
        return 0 if bool((share < self.delta / len(share)).any()) else 1

    def accept(self, newborns: Newborns) -> Verdict:
        """Keeps every birth."""
        return Verdict(True)


@dataclass(frozen=True)
class EvidenceRule:
    """Proposes a birth at every check and keeps it when the log-likelihood of other data says so.

    The new component is judged on rows that its birth did not look at, or on held-out rows if there are any, with the
    weights at their best both without it and with it. The average gain must exceed ``noise`` standard errors and
    ``min_gain``.

    :param noise: standard errors of the gain that a birth must beat
    :param min_gain: nats that a birth must bring to all the data together
    :param max_rows: rows to judge by at most
    """

    noise: float = 3.0
    min_gain: float = 5.0
    max_rows: int = 1024

    def __post_init__(self) -> None:
        check(self.noise >= 0, "noise >= 0", self.noise)
        check(self.min_gain >= 0, "min_gain >= 0", self.min_gain)
        check(self.max_rows >= 2, "max_rows >= 2", self.max_rows)

    def propose(self, usage: Usage) -> int:
        """One birth at every check."""
        return 1

    def accept(self, newborns: Newborns) -> Verdict:
        """Keeps births that others than their own data ask for."""
        rows = newborns.judged(self.max_rows)
        if len(rows) < 2:
            return Verdict(False)
        K, born = newborns.index[0], len(newborns.index)
        likelihood = newborns.likelihood(rows)
        before = likelihood.refit(newborns.trial_weights(0.0))
        after = likelihood.refit(newborns.trial_weights(born / (K + born)))
        least = self.min_gain / len(newborns.data)
        return Verdict.on_gain(likelihood(before), likelihood(after), least, self.noise, after)


@dataclass(frozen=True)
class TrialRule:
    """Lets new components train before they are judged: keeps births, and leaves it to a removal to undo them.

    For data whose components overlap, where what a component is worth shows only after all have adapted to it. Goes
    with :class:`~pyro_options.growth.Prune` and held-out rows.

    :param rate: births as a share of the components there are, at least one
    """

    rate: float = 1.0

    def __post_init__(self) -> None:
        check(self.rate > 0, "rate > 0", self.rate)

    def propose(self, usage: Usage) -> int:
        """More by a share of those there are."""
        return max(1, round(self.rate * usage.num_components))

    def accept(self, newborns: Newborns) -> Verdict:
        """Keeps births for a removal to undo, which takes two rows to judge by; fewer would let K grow for ever."""
        judges = newborns.data if newborns.held_out is None else newborns.held_out
        return Verdict(judges is None or len(judges) >= 2)


@dataclass(frozen=True)
class Never:
    """Keeps K as it is."""

    def propose(self, usage: Usage) -> int:
        """None."""
        return 0

    def accept(self, newborns: Newborns) -> Verdict:
        """Nothing to refuse."""
        return Verdict(True)
