"""Whether a move was worth it."""

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Verdict:
    """A decision and what it was made on."""

    accepted: bool
    gain: float = math.nan  # of the average log-likelihood, in nats per row
    error: float = math.nan  # its standard error
    log_weights: Tensor | None = None  # weights that suit the data best after the move, if the judge looked for them

    def figures(self) -> dict[str, float]:
        """The gain and its standard error, for a record."""
        return {"gain": self.gain, "error": self.error}

    @staticmethod
    def on_gain(
        before: Tensor, after: Tensor, least: float, noise: float, log_weights: Tensor | None = None
    ) -> "Verdict":
        """Accepts when rows gained, on average, more than ``least`` and more than ``noise`` standard errors."""
        mean, error = _mean_and_error(after - before)
        return Verdict(mean > max(least, noise * error), mean, error, log_weights)

    @staticmethod
    def on_loss(before: Tensor, after: Tensor, most: float, noise: float) -> "Verdict":
        """Accepts when rows lost, on average, less than ``most`` or less than ``noise`` standard errors."""
        mean, error = _mean_and_error(after - before)
        return Verdict(-mean < max(most, noise * error), mean, error)


def _mean_and_error(gain: Tensor) -> tuple[float, float]:
    gain = gain.double()
    return float(gain.mean()), float(gain.std()) / len(gain) ** 0.5
