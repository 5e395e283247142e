"""How many components does the data use? A distribution, not a number."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyro
import torch
from pyro import poutine
from torch import Tensor

from pyro_options.errors import check
from pyro_options.handlers.collapse import collapse
from pyro_options.options.path import MarginalActions


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
    # Steps of an episode are not independent: a path that can be drawn whole is.
    if isinstance(fn, MarginalActions) and hasattr(fn.path, "sample_posterior"):
        options = fn.path.sample_posterior(fn.component_log_prob(value))[..., 1:].argmax(-1)
        return options if fn.step_mask is None else options[fn.step_mask]
    shares, mask = fn.responsibilities(value), getattr(fn, "step_mask", None)
    shares = shares if mask is None else shares[mask]
    return torch.distributions.Categorical(probs=shares, validate_args=False).sample()


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

    :param model: a mixture, or an :class:`~pyro_options.models.OptionHMM`, whose path is summed out
    :param guide: has ``weights``, whose sites are drawn
    :param data: what the model takes
    :param min_points: points (steps, for options) that a component in use has at least
    :param min_share: the same as a share of all points
    :param site: observed site, by default ``actions`` or ``rows``, whichever the model has
    :param batch_size: rows to look at together, all by default
    """
    check(num_draws >= 1, "num_draws >= 1", num_draws)
    check(min_points >= 1 and 0 <= min_share <= 1, "min_points >= 1 and min_share in [0, 1]", (min_points, min_share))
    size = len(data) if batch_size is None else batch_size
    parts = [data[index] for index in torch.arange(len(data)).split(size)]
    draws, K = [], 0
    with pyro.get_param_store().scope(), pyro.validation_enabled(False):
        for _ in range(num_draws):
            weights = poutine.trace(guide.weights).get_trace()
            counts: Tensor = torch.zeros((), dtype=torch.long)
            for part in parts:
                nodes = poutine.trace(poutine.replay(collapse(model), weights)).get_trace(part).nodes
                node = nodes[site or ("actions" if "actions" in nodes else "rows")]
                K = node["fn"].component_log_prob(node["value"]).shape[-1]
                counts = counts + torch.bincount(
                    _draw_components(node["fn"], node["value"]).flatten().cpu(), minlength=K
                )
            threshold = max(min_points, min_share * int(counts.sum()))
            draws.append(int((counts >= threshold).sum()))
    return ComponentCounts(torch.tensor(draws), K)
