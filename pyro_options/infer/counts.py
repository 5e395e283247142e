"""The posterior distribution of the number of components that the data use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyro
import torch
from pyro import poutine
from torch import Tensor

from pyro_options.errors import check
from pyro_options.growth.contracts import (
    CollapsibleModel,
    ComponentLikelihood,
    ComponentSampler,
    mask_of,
    row_groups,
    take_rows,
)
from pyro_options.handlers.collapse import collapse


@dataclass(frozen=True)
class ComponentCounts:
    """Samples from the posterior over the number of components in use."""

    draws: Tensor  # (S,) integers
    num_components: int  # K, the truncation

    @property
    def probabilities(self) -> Tensor:
        """Posterior probability of n = 0, …, K components in use, ``(K + 1,)``."""
        return torch.bincount(self.draws, minlength=self.num_components + 1) / len(self.draws)

    @property
    def mean(self) -> float:
        """The expected number of components in use."""
        return float(self.draws.double().mean())

    @property
    def mode(self) -> int:
        """The most probable number of components in use."""
        return int(self.probabilities.argmax())

    def interval(self, level: float = 0.9) -> tuple[int, int]:
        """The equal-tailed credible interval."""
        check(0 < level < 1, "level in (0, 1)", level)
        ends = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
        low, high = torch.quantile(self.draws.double(), ends).tolist()
        return int(low), round(high + 0.4999)

    def to_dict(self) -> dict:
        """Mode, mean and 90 % interval, as JSON values."""
        return {"mode": self.mode, "mean": self.mean, "interval": list(self.interval())}


def _draw_components(fn: Any, value: Tensor) -> Tensor:
    """Samples the component of every data point from its posterior given the current weights."""
    mask = mask_of(fn)
    if isinstance(fn, ComponentSampler):
        drawn = fn.sample_components(value)
        return drawn if mask is None else drawn[mask]
    shares = fn.responsibilities(value)
    shares = shares if mask is None else shares[mask]
    return torch.distributions.Categorical(probs=shares, validate_args=False).sample()


def _observed_site(nodes: Mapping[str, Any]) -> str:
    """The name of the only observed site whose distribution is a :class:`ComponentLikelihood`."""
    observed = {name: node for name, node in nodes.items() if node["type"] == "sample" and node["is_observed"]}
    found = [name for name, node in observed.items() if isinstance(node["fn"], ComponentLikelihood)]
    check(len(found) == 1, "one observed site with components", found, "Pass site=….")
    return found[0]


@torch.no_grad()
def component_counts(
    model: Callable,
    guide: Any,
    data: Any,
    num_draws: int = 100,
    min_points: int = 1,
    min_share: float = 0.0,
    site: str | None = None,
    batch_size: int | None = None,
) -> ComponentCounts:
    """Samples weights from the guide, then the component of every data point, and counts the components that occur.

    :param model: its observed site has a :class:`~pyro_options.growth.ComponentLikelihood`; latents are summed out
    :param guide: has ``weights``, from which weights are sampled
    :param data: the argument of the model
    :param num_draws: posterior samples of the count
    :param min_points: data points (steps, for options) that a component needs to count as in use
    :param min_share: the same as a share of all data points; the larger of the two thresholds applies
    :param site: name of the observed site, by default the only one with components
    :param batch_size: rows per run of the model, by default all
    """
    check(num_draws >= 1, "num_draws >= 1", num_draws)
    check(min_points >= 1 and 0 <= min_share <= 1, "min_points >= 1 and min_share in [0, 1]", (min_points, min_share))
    model = collapse(model) if isinstance(model, CollapsibleModel) else model
    groups = row_groups(data, batch_size)
    draws, K = [], 0
    with pyro.get_param_store().scope(), pyro.validation_enabled(False):
        for _ in range(num_draws):
            weights = poutine.trace(guide.weights).get_trace()
            counts: Tensor = torch.zeros((), dtype=torch.long)
            for index in groups:
                nodes = poutine.trace(poutine.replay(model, weights)).get_trace(take_rows(data, index)).nodes
                node = nodes[_observed_site(nodes) if site is None else site]
                K = node["fn"].component_log_prob(node["value"]).shape[-1]
                counts = counts + torch.bincount(
                    _draw_components(node["fn"], node["value"]).flatten().cpu(), minlength=K
                )
            threshold = max(min_points, min_share * int(counts.sum()))
            draws.append(int((counts >= threshold).sum()))
    return ComponentCounts(torch.tensor(draws), K)
