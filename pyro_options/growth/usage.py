"""What growth is decided on."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Usage:
    """How components explain a data set."""

    likelihood: Tensor  # (K,) fraction of data points that component k makes most likely: U(h) of the paper
    posterior: Tensor  # (K,) average responsibility of component k
    num_points: int

    @property
    def num_components(self) -> int:
        return len(self.likelihood)
