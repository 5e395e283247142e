"""The verdict on a move: accepted or not, with the measured gain."""

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Verdict:
    """Whether a move is accepted, and the gain that this is based on.

    Gains are sums over all rows that judge a move, not means, and are not compared with their standard errors: if a
    single row uses a component, the mean loss without it and its standard error are equal, however large the loss is.
    For rows that neither model was fitted to a threshold in nats is a test: if the simpler model holds, the probability
    of a gain of more than g nats is at most exp(-g) (Markov's inequality for the likelihood ratio).
    """

    accepted: bool
    gain: float = math.nan  # of the log-likelihood of all judging rows together, in nats
    error: float = math.nan  # its standard error, for the record
    log_weights: Tensor | None = None  # (K,) weights refitted after the move, if the rule did that

    def figures(self) -> dict[str, float]:
        """The gain and its standard error by name."""
        return {"gain": self.gain, "error": self.error}

    @staticmethod
    def on_gain(before: Tensor, after: Tensor, least: float, log_weights: Tensor | None = None) -> "Verdict":
        """Accepts if the rows together gain more than ``least`` nats."""
        total, error = total_and_error(after - before)
        return Verdict(total > least, total, error, log_weights)

    @staticmethod
    def on_loss(before: Tensor, after: Tensor, most: float) -> "Verdict":
        """Accepts if the rows together lose at most ``most`` nats."""
        total, error = total_and_error(after - before)
        return Verdict(-total <= most, total, error)


def total_and_error(gain: Tensor) -> tuple[float, float]:
    """The sum of the gains of the rows, and its standard error."""
    gain = gain.double()
    return float(gain.sum()), float(gain.std()) * len(gain) ** 0.5 if len(gain) > 1 else math.nan
