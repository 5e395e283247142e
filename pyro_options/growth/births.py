"""How a new component starts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from pyro import poutine
from torch import Tensor, nn

from pyro_options.errors import check
from pyro_options.handlers.observe import Usage
from pyro_options.nn.growable import growables


@dataclass(frozen=True)
class Newborns:
    """Components that :func:`~pyro_options.growth.resize.grow` has just appended, and what a birth may look at."""

    index: Sequence[int]  # the new components
    modules: Sequence[nn.Module]  # everything that grew
    model: Callable | None  # with latent sites summed out and weights drawn from the guide
    data: Any  # all of it, indexable by rows
    site: str  # the observed site
    usage: Usage  # before the birth


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

    The worst-explained row is the seed: the component is fitted to it, then to the ``share`` of rows whose likelihood
    it improves most. Only the new component's own parameters move.

    :param share: fraction of the rows to fit, by default one part in the number of components
    :param steps: Adam steps of each of the two fits
    :param learning_rate: of those steps
    """

    share: float | None = None
    steps: int = 100
    learning_rate: float = 0.1

    def __post_init__(self) -> None:
        check(self.share is None or 0 < self.share <= 1, "share in (0, 1]", self.share)
        check(self.steps >= 1, "steps >= 1", self.steps)

    def __call__(self, newborns):
        check(
            newborns.model is not None and newborns.data is not None,
            "a model and data to fit",
            "none",
            "Give them to GrowthMessenger.step.",
        )
        for k in newborns.index:
            self._fit_one(newborns.model, newborns.modules, newborns.data, newborns.site, k)

    def _fit_one(self, model, modules, data, site, k):
        with torch.no_grad():
            explained = self._observe(model, data, site).row_log_prob
        worst = int(explained.argmin())
        self._fit(model, modules, data[[worst]], site, k)
        with torch.no_grad():
            gain = self._observe(model, data, site).component[..., k].sum(-1) - explained
        share = 1 / (k + 1) if self.share is None else self.share
        best = gain.topk(max(1, round(share * len(gain)))).indices
        rows = best[gain[best] > 0]
        if len(rows) > 1:
            self._fit(model, modules, data[rows], site, k)

    @dataclass(frozen=True)
    class _Observation:
        component: Tensor  # (N, T, K) log-likelihood of every point under every component, zero where masked out
        row_log_prob: Tensor  # (N,) per point

    def _observe(self, model, data, site) -> "_Observation":
        node = poutine.trace(model).get_trace(data).nodes[site]
        fn, value = node["fn"], node["value"]
        component = fn.component_log_prob(value)
        component = component.reshape(len(component), -1, component.shape[-1])
        mask = getattr(fn, "step_mask", None)
        mask = torch.ones_like(component[..., 0]) if mask is None else mask.reshape(component.shape[:-1])
        component = component * mask.unsqueeze(-1)
        return self._Observation(component, fn.log_prob(value) / mask.sum(-1))

    def _fit(self, model, modules, rows, site, k):
        """Maximizes the likelihood of ``rows`` under component ``k`` over its own parameters."""
        parameters = [
            (getattr(layer, name), axis)
            for layer in growables(modules)
            for name, axis in layer.component_axes.items()
            if getattr(layer, name).requires_grad
        ]
        offsets = [nn.Parameter(torch.zeros_like(p.select(axis, k))) for p, axis in parameters]
        original = [p.select(axis, k).clone().detach() for p, axis in parameters]
        optimizer = torch.optim.Adam(offsets, lr=self.learning_rate)
        for _ in range(self.steps):
            loss = -self._observe(model, rows, site).component[..., k].sum() / len(rows)
            grads = torch.autograd.grad(loss, [p for p, _ in parameters], allow_unused=True)
            with torch.no_grad():
                for offset, grad, (_, axis) in zip(offsets, grads, parameters):
                    offset.grad = None if grad is None else grad.select(axis, k).clone()
                optimizer.step()
                for offset, start, (p, axis) in zip(offsets, original, parameters):
                    p.select(axis, k).copy_(start + offset)
