"""What a birth and its judge may look at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from pyro import poutine
from torch import Tensor, nn

from pyro_options.errors import check

from .usage import Usage


@dataclass(frozen=True)
class Newborns:
    """Components that :func:`~pyro_options.growth.resize.grow` has just appended, in their surroundings.

    :param index: the new components
    :param modules: everything that grew
    :param usage: what was observed before the birth
    :param log_weights: mean log weights of the components that were there before ``(K,)``
    :param model: ``model(rows, log_weights)`` runs the model with its latent sites summed out under given weights
    :param data: all the rows, with a length and indexable
    :param site: the observed site
    :param batch_size: rows to look at together
    """

    index: Sequence[int]
    modules: Sequence[nn.Module]
    usage: Usage
    log_weights: Tensor | None = None
    model: Callable | None = None
    data: Any = None
    site: str = "actions"
    batch_size: int = 128
    used_rows: set[int] = field(default_factory=set)  # rows that the birth has looked at

    def require_data(self) -> None:
        given = self.model is not None and self.data is not None and self.log_weights is not None
        check(given, "a model, data and weights to look at", "none", "Give them to GrowthMessenger.step.")

    def trial_weights(self, share: float) -> Tensor:
        """Log weights with ``share`` for the new components together and the rest for those that were there."""
        assert self.log_weights is not None
        old = torch.log_softmax(self.log_weights, -1) + torch.log1p(torch.tensor(-share - 1e-6).to(self.log_weights))
        each = max(share / len(self.index), 1e-30)
        return torch.cat([old, torch.log(torch.tensor(each).to(old)).expand(len(self.index))])

    def observed(self, rows: Any, log_weights: Tensor) -> tuple[Any, Any]:
        """Distribution and value of the observed site, for these rows under these weights."""
        assert self.model is not None
        node = poutine.trace(lambda: self.model(rows, log_weights)).get_trace().nodes[self.site]
        return node["fn"], node["value"]

    @torch.no_grad()
    def row_log_prob(self, log_weights: Tensor, rows: Sequence[int] | None = None) -> Tensor:
        """Log-likelihood of each row, ``(rows,)``."""
        index = torch.arange(len(self.data)) if rows is None else torch.as_tensor(rows)
        parts = []
        for part in index.split(self.batch_size):
            fn, value = self.observed(self.data[part.to(log_weights.device)], log_weights)
            parts.append(fn.log_prob(value))
        return torch.cat(parts)

    def unseen_rows(self) -> list[int]:
        """Rows that no birth has looked at."""
        return [row for row in range(len(self.data)) if row not in self.used_rows]
