"""How flexible policies are, and the values that the search for it compares."""

from dataclasses import dataclass

#: the value of a setting that the search chooses
AUTO = "auto"

#: widths of the shared state network to compare, the simplest first
WIDTHS: tuple[tuple[int, ...], ...] = ((), (64,), (64, 64))

#: standard deviations of the prior on the weights of the heads to compare, ``None`` for no prior
SCALES: tuple[float | None, ...] = (None, 3.0, 1.0, 0.3)


@dataclass(frozen=True)
class Capacity:
    """How flexible the policies are: the widths of the state network, and the prior scale of the weights of heads."""

    hidden: tuple[int, ...]
    weight_scale: float | None
