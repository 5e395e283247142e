"""Usage of components: the statistics on which growth decides."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Usage:
    """Usage of each component on a data set."""

    likelihood: Tensor  # (K,) fraction of data points whose likelihood is highest under k: U(h) of the paper
    posterior: Tensor  # (K,) average responsibility of component k
    num_points: int
    explained: Tensor | None = None  # (K, K) average over data points of responsibility of i * log-likelihood under j

    @property
    def num_components(self) -> int:
        """K."""
        return len(self.likelihood)

    def replacement_cost(self) -> Tensor:
        """``(K, K)`` nats per data point lost if j replaced i on the data of i; infinite on the diagonal."""
        assert self.explained is not None
        cost = self.explained.diagonal().unsqueeze(-1) - self.explained
        return cost.masked_fill(torch.eye(len(cost), dtype=torch.bool), torch.inf)

    def without(self, gone: list[int]) -> "Usage":
        """The usage of the remaining components, renormalized to sum to one."""
        keep = [k for k in range(self.num_components) if k not in gone]
        likelihood, posterior = (
            share[keep] / share[keep].sum().clamp(min=1e-12) for share in (self.likelihood, self.posterior)
        )
        explained = None if self.explained is None else self.explained[keep][:, keep]
        return Usage(likelihood, posterior, self.num_points, explained)
