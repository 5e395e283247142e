"""When to grow: propose births from how components explain the data, and accept or refuse what came of them."""

from dataclasses import dataclass
from typing import Protocol

import torch

from pyro_options.errors import check

from .newborns import Newborns
from .usage import Usage


class Rule(Protocol):
    """Plans births and judges them."""

    def propose(self, usage: Usage) -> int:
        """:returns: the number of births, 0 to leave things as they are"""

    def accept(self, newborns: Newborns) -> bool:
        """Whether to keep new components; a refused birth is undone exactly."""


@dataclass(frozen=True)
class UsageRule:
    """The paper's rule: add a component when none of the K is used by less than δ / K of the data.

    It has a known weak spot: usage of 0.76 and 0.24 at K = 2, δ = 0.5 stops growth for good.

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
        share = getattr(usage, self.measure)
        return 0 if bool((share < self.delta / len(share)).any()) else 1

    def accept(self, newborns: Newborns) -> bool:
        return True


@dataclass(frozen=True)
class EvidenceRule:
    """Proposes a birth at every check and keeps it when the exact log-likelihood of other data says so.

    The new component is judged on rows that its birth did not look at, with its weight at the best of ``weights``. The
    average gain must exceed ``noise`` standard errors and ``min_gain``.

    :param noise: standard errors of the gain that a birth must beat
    :param min_gain: nats per row that a birth must bring
    :param weights: weights of the new component to try, as multiples of 1 / (K + 1)
    """

    noise: float = 3.0
    min_gain: float = 0.0
    weights: tuple[float, ...] = (1.0, 0.5, 0.2)

    def __post_init__(self) -> None:
        check(self.noise >= 0, "noise >= 0", self.noise)
        check(len(self.weights) >= 1 and all(0 < w <= 1 for w in self.weights), "weights in (0, 1]", self.weights)

    def propose(self, usage: Usage) -> int:
        return 1

    @torch.no_grad()
    def accept(self, newborns: Newborns) -> bool:
        newborns.require_data()
        judged = newborns.unseen_rows()
        if len(judged) < 2:
            return False
        before = newborns.row_log_prob(newborns.trial_weights(0.0), judged)
        share = 1 / (newborns.index[0] + 1)
        gains = [newborns.row_log_prob(newborns.trial_weights(w * share), judged) - before for w in self.weights]
        gain = max(gains, key=lambda rows: float(rows.mean()))
        error = float(gain.std()) / len(gain) ** 0.5
        return float(gain.mean()) > max(self.noise * error, self.min_gain)


@dataclass(frozen=True)
class Never:
    """Keeps K as it is."""

    def propose(self, usage: Usage) -> int:
        return 0

    def accept(self, newborns: Newborns) -> bool:
        return True
