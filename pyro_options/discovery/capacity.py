"""How flexible policies are, and the values that the search for it compares."""

from dataclasses import dataclass
from typing import Any

#: the value of a setting that the search chooses
AUTO = "auto"

#: widths of the shared state network to compare, the simplest first
WIDTHS: tuple[tuple[int, ...], ...] = ((), (64,), (64, 64))

#: standard deviations of the prior on the weights of the heads to compare, the simplest first; ``None`` for no prior
SCALES: tuple[float | None, ...] = (0.3, 1.0, 3.0, None)

#: scale with which widths are compared, before the scales are
MIDDLE = 1.0


@dataclass(frozen=True)
class Capacity:
    """How flexible the policies are: the widths of the state network, and the prior scale of the weights of heads."""

    hidden: tuple[int, ...]
    weight_scale: float | None

    @property
    def simplicity(self) -> tuple[int, int]:
        """Sorts candidates, the simplest first."""
        return WIDTHS.index(self.hidden), SCALES.index(self.weight_scale)


def candidates_of(hidden: Any, weight_scale: Any) -> tuple[list[Capacity], list[Capacity]]:
    """The candidates of the first stage, which compares widths, and scales to compare in the second."""
    widths = WIDTHS if hidden == AUTO else (tuple(hidden),)
    scales = SCALES if weight_scale == AUTO else (weight_scale,)
    middle = MIDDLE if weight_scale == AUTO else weight_scale
    return [Capacity(width, middle) for width in widths], [Capacity((), scale) for scale in scales if scale != middle]
