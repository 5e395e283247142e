"""Rules: propose births from the usage of components, and accept or refuse each birth."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from pyro_options.errors import check

from .scene import Newborns
from .snapshot import Snapshot
from .usage import Usage
from .verdict import Verdict


class Rule(Protocol):
    """Proposes births and accepts or refuses them."""

    def propose(self, usage: Usage) -> int:
        """:returns: the number of components to add, 0 for none"""

    def accept(self, newborns: Newborns) -> Verdict:
        """Whether to keep the new components; a refused birth is undone bit for bit."""


@dataclass(frozen=True)
class UsageRule:
    """The paper's rule: add a component unless one of the K has a usage below δ / K.

    Known weakness: usage of 0.76 and 0.24 at K = 2, δ = 0.5 stops growth for good.

    >>> import torch
    >>> even, uneven = torch.tensor([0.5, 0.5]), torch.tensor([0.76, 0.24])
    >>> [UsageRule().propose(Usage(share, share, 100)) for share in (even, uneven)]
    [1, 0]

    :param delta: δ in (0, 1)
    :param measure: ``"likelihood"``, as in the paper, is the share of data points whose likelihood is highest under a
        component; ``"posterior"`` is its average responsibility, which also depends on the weights and on the other
        data points of a sequence
    """

    delta: float = 0.5
    measure: str = "likelihood"

    def __post_init__(self) -> None:
        check(0 < self.delta < 1, "delta in (0, 1)", self.delta)
        check(self.measure in ("likelihood", "posterior"), 'measure "likelihood" or "posterior"', repr(self.measure))

    def propose(self, usage: Usage) -> int:
        """One birth unless a component has a usage below δ / K."""
        share = getattr(usage, self.measure)
        return 0 if bool((share < self.delta / len(share)).any()) else 1

    def accept(self, newborns: Newborns) -> Verdict:
        """Keeps every birth."""
        return Verdict(True)


@dataclass(frozen=True)
class EvidenceRule:
    """Proposes a birth at every check and accepts it if the log-likelihood of data it was not fitted to increases.

    The log-likelihood is that of all rows not used by the birth, or of held-out rows if there are any, with the weights
    refitted by EM both without and with the new component. It must rise by more than ``min_gain`` nats in all. The old
    components are first fitted to the rows of the birth as well: otherwise a birth would be credited with what they
    have not learned yet.

    :param min_gain: nats that the rows together must gain
    :param steps: Adam steps for the old components before the comparison
    :param learning_rate: of those steps
    :param max_rows: the most rows to evaluate
    """

    min_gain: float = 5.0
    steps: int = 25
    learning_rate: float = 0.02
    max_rows: int = 1024

    def __post_init__(self) -> None:
        check(self.min_gain >= 0, "min_gain >= 0", self.min_gain)
        check(self.steps >= 0, "steps >= 0", self.steps)
        check(self.learning_rate > 0, "learning_rate > 0", self.learning_rate)
        check(self.max_rows >= 2, "max_rows >= 2", self.max_rows)

    def propose(self, usage: Usage) -> int:
        """One birth at every check."""
        return 1

    def accept(self, newborns: Newborns) -> Verdict:
        """Accepts a birth that raises the log-likelihood of rows it was not fitted to."""
        rows = newborns.judged(self.max_rows)
        if len(rows) < 2:
            return Verdict(False)
        K, born = newborns.index[0], len(newborns.index)
        likelihood = newborns.likelihood(rows)
        after = likelihood.refit(newborns.trial_weights(born / (K + born)))
        verdict = Verdict.on_gain(self._without(newborns, rows), likelihood(after), self.min_gain, after)
        if verdict.accepted and self.steps and newborns.used_rows:
            adapted = self._adapted(newborns, rows, K)
            return Verdict.on_gain(adapted, likelihood(after), max(self.min_gain, 0.0), after)
        return verdict

    @staticmethod
    def _without(newborns: Newborns, rows: Any) -> Tensor:
        """Log-likelihoods of the rows without the new components."""
        likelihood = newborns.likelihood(rows)
        return likelihood(likelihood.refit(newborns.trial_weights(0.0)))

    def _adapted(self, newborns: Newborns, rows: Any, K: int) -> Tensor:
        """The same after the old components were fitted to the rows of the birth; they are restored."""
        undo = Snapshot(newborns.modules)
        fitted = newborns.data[torch.tensor(sorted(newborns.used_rows), device=newborns.require_data().device)]
        newborns.fit(range(K), fitted, newborns.trial_weights(0.0), self.steps, self.learning_rate)
        found = self._without(newborns, rows)
        undo.restore()
        return found


@dataclass(frozen=True)
class TrialRule:
    """Accepts births without a test: new components are trained, and a removal deletes superfluous ones later.

    For data whose components overlap, where the gain from a component shows only after all of them have adapted to it.
    Use it with :class:`~pyro_options.growth.Prune` and held-out rows.

    :param rate: number of births as a multiple of K; at least one birth
    """

    rate: float = 1.0

    def __post_init__(self) -> None:
        check(self.rate > 0, "rate > 0", self.rate)

    def propose(self, usage: Usage) -> int:
        """``rate`` times K births, at least one."""
        return max(1, round(self.rate * usage.num_components))

    def accept(self, newborns: Newborns) -> Verdict:
        """Accepts births if there are the two rows that a removal needs to undo them: else K would only grow."""
        judges = newborns.data if newborns.held_out is None else newborns.held_out
        return Verdict(judges is None or len(judges) >= 2)


@dataclass(frozen=True)
class Never:
    """Keeps K fixed."""

    def propose(self, usage: Usage) -> int:
        """No birth."""
        return 0

    def accept(self, newborns: Newborns) -> Verdict:
        """Never called, since nothing is proposed."""
        return Verdict(True)
