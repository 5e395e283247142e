"""The verdict on a move: accepted or not, with the measured gain."""

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Verdict:
    """Whether a move is accepted, and the gain that this is based on."""

    accepted: bool
    gain: float = math.nan  # of the average log-likelihood, in nats per row
    error: float = math.nan  # its standard error
    log_weights: Tensor | None = None  # (K,) weights refitted after the move, if the rule did that

    def figures(self) -> dict[str, float]:
        """The gain and its standard error by name."""
        return {"gain": self.gain, "error": self.error}

    @staticmethod
    def on_gain(
        before: Tensor, after: Tensor, least: float, noise: float, log_weights: Tensor | None = None
    ) -> "Verdict":
        """Accepts if the average gain per row exceeds both ``least`` and ``noise`` standard errors."""
        mean, error = _mean_and_error(after - before)
        return Verdict(mean > max(least, noise * error), mean, error, log_weights)

    @staticmethod
    def on_loss(before: Tensor, after: Tensor, most: float, noise: float) -> "Verdict":
        """Accepts if the average loss per row is below ``most`` or below ``noise`` standard errors."""
        mean, error = _mean_and_error(after - before)
        return Verdict(-mean < max(most, noise * error), mean, error)


def _mean_and_error(gain: Tensor) -> tuple[float, float]:
    gain = gain.double()
    return float(gain.mean()), float(gain.std()) / len(gain) ** 0.5
