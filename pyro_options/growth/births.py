"""How a new component starts."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from pyro_options.errors import check
from pyro_options.nn.growable import growables

from .newborns import Newborns


class Birth(Protocol):
    """Prepares new components."""

    def __call__(self, newborns: Newborns) -> None: ...


@dataclass(frozen=True)
class RandomBirth:
    """The paper's way: a new component keeps its random initial values."""

    def __call__(self, newborns):
        return None


@dataclass(frozen=True)
class SplitBirth:
    """A new component starts as a noisy copy of the most used one, in the model and in the guide.

    Its data then divide between the two, which keeps usage even: a rule that looks at the least used component is not
    held up by one that won a single cluster.

    :param noise: how much of the random initial values to keep on top of the copy
    """

    noise: float = 0.5

    def __post_init__(self) -> None:
        check(self.noise >= 0, "noise >= 0", self.noise)

    def __call__(self, newborns):
        parents = newborns.usage.likelihood.argsort(descending=True).tolist()
        for i, child in enumerate(newborns.index):
            for layer in growables(newborns.modules):
                layer.inherit(child, parents[i % len(parents)], self.noise)


@dataclass(frozen=True)
class DataBirth:
    """Fits a new component to the rows of data that the model explains worst.

    Of the worst-explained ``share`` of the rows a random half (at most ``max_rows``) is fitted, by maximizing its exact
    log-likelihood over the parameters of the new component alone; the other rows are left for a rule to judge it by.

    :param share: fraction of the rows to look at, by default one part in the number of components
    :param max_rows: rows to fit at most
    :param steps: Adam steps
    :param learning_rate: of those steps
    """

    share: float | None = None
    max_rows: int = 128
    steps: int = 100
    learning_rate: float = 0.1

    def __post_init__(self) -> None:
        check(self.share is None or 0 < self.share <= 1, "share in (0, 1]", self.share)
        check(self.steps >= 1 and self.max_rows >= 1, "steps and max_rows >= 1", (self.steps, self.max_rows))

    def __call__(self, newborns):
        newborns.require_data()
        explained = newborns.row_log_prob(newborns.trial_weights(0.0))
        share = 1 / (1 + len(newborns.log_weights)) if self.share is None else self.share
        worst = explained.topk(max(2, round(share * len(explained))), largest=False).indices
        half = worst[torch.randperm(len(worst), device=worst.device)][: min(self.max_rows, (len(worst) + 1) // 2)]
        newborns.used_rows.update(half.tolist())
        self._fit(newborns, newborns.data[half], newborns.trial_weights(share))

    def _fit(self, newborns: Newborns, rows, log_weights: Tensor) -> None:
        """Maximizes the likelihood of ``rows`` over the parameters of the new components."""
        parameters = [
            (getattr(layer, name), axis)
            for layer in growables(newborns.modules)
            for name, axis in layer.component_axes.items()
            if getattr(layer, name).requires_grad
        ]
        index = torch.tensor(list(newborns.index), device=log_weights.device)
        moving = [nn.Parameter(p.detach().index_select(axis, index)) for p, axis in parameters]
        optimizer = torch.optim.Adam(moving, lr=self.learning_rate)
        for _ in range(self.steps):
            fn, value = newborns.observed(rows, log_weights)
            loss = -fn.log_prob(value).sum() / len(rows)
            grads = torch.autograd.grad(loss, [p for p, _ in parameters], allow_unused=True)
            with torch.no_grad():
                for own, grad, (_, axis) in zip(moving, grads, parameters):
                    own.grad = None if grad is None else grad.index_select(axis, index)
                optimizer.step()
                for own, (p, axis) in zip(moving, parameters):
                    p.index_copy_(axis, index, own)
