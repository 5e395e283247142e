"""What growth is decided on."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Usage:
    """How components explain a data set."""

    likelihood: Tensor  # (K,) fraction of data points that component k makes most likely: U(h) of the paper
    posterior: Tensor  # (K,) average responsibility of component k
    num_points: int
    explained: Tensor | None = None  # (K, K) average of responsibility of i times log-likelihood under j

    @property
    def num_components(self) -> int:
        return len(self.likelihood)

    def replacement_cost(self) -> Tensor:
        """``(K, K)`` nats per data point lost if j took over all that i explains; infinite on the diagonal."""
        assert self.explained is not None
        cost = self.explained.diagonal().unsqueeze(-1) - self.explained
        return cost.masked_fill(torch.eye(len(cost), dtype=torch.bool), torch.inf)
