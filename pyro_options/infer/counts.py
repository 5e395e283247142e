"""How many components does the data use? A distribution, not a number."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyro
import torch
from pyro import poutine
from torch import Tensor

from pyro_options.errors import check
from pyro_options.growth.contracts import CollapsibleModel, ComponentLikelihood, ComponentSampler, mask_of
from pyro_options.handlers.collapse import collapse


@dataclass(frozen=True)
class ComponentCounts:
    """Draws from the posterior over the number of components in use."""

    draws: Tensor  # (S,) integers
    num_components: int  # K, of which some may be unused

    @property
    def probabilities(self) -> Tensor:
        """``(K + 1,)`` p(n components are in use)."""
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
        """Plain numbers, for JSON."""
        return {"mode": self.mode, "mean": self.mean, "interval": list(self.interval())}


def _draw_components(fn: Any, value: Tensor) -> Tensor:
    """The component of every data point, drawn from its posterior under the weights of this run."""
    mask = mask_of(fn)
    if isinstance(fn, ComponentSampler):
        drawn = fn.sample_components(value)
        return drawn if mask is None else drawn[mask]
    shares = fn.responsibilities(value)
    shares = shares if mask is None else shares[mask]
    return torch.distributions.Categorical(probs=shares, validate_args=False).sample()


def _observed_site(nodes: Mapping[str, Any]) -> str:
    """The one observed site whose distribution has components."""
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
    """Draws weights from the guide and assignments given those, and counts the components that occur.

    :param model: its observed site is a :class:`~pyro_options.growth.ComponentLikelihood`; latents are summed out
    :param guide: has ``weights``, whose sites are drawn
    :param data: what the model takes
    :param min_points: points (steps, for options) that a component in use has at least
    :param min_share: the same as a share of all points
    :param site: observed site, by default the only one that components explain
    :param batch_size: rows to look at together, all by default
    """
    check(num_draws >= 1, "num_draws >= 1", num_draws)
    check(min_points >= 1 and 0 <= min_share <= 1, "min_points >= 1 and min_share in [0, 1]", (min_points, min_share))
    size = len(data) if batch_size is None else batch_size
    model = collapse(model) if isinstance(model, CollapsibleModel) else model
    parts = [data[index] for index in torch.arange(len(data)).split(size)]
    draws, K = [], 0
    with pyro.get_param_store().scope(), pyro.validation_enabled(False):
        for _ in range(num_draws):
            weights = poutine.trace(guide.weights).get_trace()
            counts: Tensor = torch.zeros((), dtype=torch.long)
            for part in parts:
                nodes = poutine.trace(poutine.replay(model, weights)).get_trace(part).nodes
                node = nodes[_observed_site(nodes) if site is None else site]
                K = node["fn"].component_log_prob(node["value"]).shape[-1]
                counts = counts + torch.bincount(
                    _draw_components(node["fn"], node["value"]).flatten().cpu(), minlength=K
                )
            threshold = max(min_points, min_share * int(counts.sum()))
            draws.append(int((counts >= threshold).sum()))
    return ComponentCounts(torch.tensor(draws), K)
