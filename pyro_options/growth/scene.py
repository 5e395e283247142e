"""What births, removals and rules can access: modules, data, and the likelihood of rows under given weights."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from pyro import poutine
from torch import Tensor, nn

from pyro_options.errors import check

from .contracts import ComponentLikelihood, Weighable, fulfills, row_groups, take_rows
from .growable import growables
from .resizing import num_components
from .usage import Usage

#: log weight of a component that is switched off; finite, because ``logaddexp`` of infinities has NaN gradients
ABSENT = -70.0

#: mass that trial weights leave unassigned, so that a model can convert them to sticks: the last stick stays below one
LEFT = 1e-4


@dataclass(frozen=True)
class Scene:
    """The modules to resize, their data, and the log-likelihood of each row under any weights.

    :param modules: modules with growable layers, usually ``[model, guide]``
    :param usage: usage of the components at this check
    :param site: the observed site
    :param log_weights: mean log weights of the components ``(K,)``
    :param model: ``model(rows, log_weights)`` runs the model under given weights with its latent sites summed out; a
        lower bound per row, even a stochastic one, works as well
    :param data: all the rows; has a length and can be indexed by a tensor of indices
    :param held_out: rows on which moves are evaluated; by default those of ``data`` that the move was not fitted to
    :param batch_size: rows to evaluate at a time
    :param lost: nats that the removals of earlier checks have cost the judging rows, which count against later ones
    """

    modules: Sequence[nn.Module]
    usage: Usage
    site: str
    log_weights: Tensor | None = None
    model: Callable | None = None
    data: Any = None
    held_out: Any = None
    batch_size: int = 128
    lost: float = 0.0

    def without(self, gone: Sequence[int]) -> "Scene":
        """The same scene without the components ``gone``, which were removed from the modules."""
        if not gone:
            return self
        keep = [k for k in range(self.usage.num_components) if k not in gone]
        weights = None if self.log_weights is None else self.log_weights[keep]
        return replace(self, usage=self.usage.without(list(gone)), log_weights=weights)

    def require_data(self) -> Tensor:
        """The mean log weights; an error unless model, data and weights were given."""
        given = self.model is not None and self.data is not None and self.log_weights is not None
        check(given, "a model, data and weights to look at", "none", "Give them to GrowthMessenger.step.")
        assert self.log_weights is not None
        return self.log_weights

    def observed(self, rows: Any, log_weights: Tensor) -> tuple[Any, Any]:
        """Distribution and value of the observed site for these rows.

        :param log_weights: ``(K,)``, of weights that sum to one; scaled here to leave ``LEFT`` unassigned
        """
        assert self.model is not None
        weights = log_weights + math.log1p(-LEFT)
        node = poutine.trace(lambda: self.model(rows, weights)).get_trace().nodes[self.site]
        return fulfills(node["fn"], ComponentLikelihood, f"the distribution of site {self.site!r}"), node["value"]

    def judged(self, max_rows: int) -> Any:
        """At most ``max_rows`` rows on which to evaluate a move, at random."""
        if self.held_out is not None:
            return self.sample(self.held_out, range(len(self.held_out)), max_rows)
        return self.sample(self.data, self.unseen_rows(), max_rows)

    def sample(self, data: Any, rows: Sequence[int], max_rows: int) -> Any:
        """At most ``max_rows`` of these rows, at random."""
        index = torch.as_tensor(rows, dtype=torch.long)
        if len(index) > max_rows:
            index = index[torch.randperm(len(index))[:max_rows]]
        return data[index.to(self.require_data().device)]

    def unseen_rows(self) -> Sequence[int]:
        """Indices of the rows that no move was fitted to."""
        return range(len(self.data))

    def component_size(self) -> int:
        """Number of parameters of one component that the likelihood depends on."""
        weights = self.require_data()
        parameters = self._parameters()
        K = num_components(self.modules)
        first = take_rows(self.data, torch.zeros(1, dtype=torch.long, device=weights.device))
        fn, value = self.observed(first, _even(self))
        grads = torch.autograd.grad(fn.log_prob(value).sum(), [p for p, _ in parameters], allow_unused=True)
        return sum(p.numel() // K for (p, _), grad in zip(parameters, grads) if grad is not None)

    def _parameters(self) -> list[tuple[nn.Parameter, int]]:
        """Trained parameters with one part per component, and the axis of the components."""
        return [
            (getattr(layer, name), axis)
            for layer in growables(self.modules)
            for name, axis in layer.component_axes.items()
            if getattr(layer, name).requires_grad
        ]

    def likelihood(self, rows: Any) -> "RowLikelihood":
        """The log-likelihood of these rows as a function of the weights, with the components as they are now."""
        return RowLikelihood(self, rows)

    def fit(self, index: Sequence[int], rows: Any, log_weights: Tensor, steps: int, learning_rate: float) -> None:
        """Maximizes the likelihood of ``rows`` over the parameters of the components ``index`` alone, with Adam."""
        parameters = self._parameters()
        chosen = torch.tensor(list(index), device=log_weights.device)
        moving = [nn.Parameter(p.detach().index_select(axis, chosen)) for p, axis in parameters]
        optimizer = torch.optim.Adam(moving, lr=learning_rate)
        batches = [take_rows(rows, index) for index in row_groups(rows, device=log_weights.device)]
        for _ in range(steps):
            optimizer.zero_grad()
            for batch in batches:
                fn, value = self.observed(batch, log_weights)
                loss = -fn.log_prob(value).sum() / len(rows)
                grads = torch.autograd.grad(loss, [p for p, _ in parameters], allow_unused=True)
                for own, grad, (_, axis) in zip(moving, grads, parameters):
                    if grad is not None:
                        part = grad.index_select(axis, chosen)
                        own.grad = part if own.grad is None else own.grad + part
            with torch.no_grad():
                optimizer.step()
                for own, (p, axis) in zip(moving, parameters):
                    p.index_copy_(axis, chosen, own)


def _even(scene: Scene) -> Tensor:
    K = num_components(scene.modules)
    return scene.require_data().new_full((K,), -math.log(K))


class RowLikelihood:
    """The log-likelihood of each of some rows as a function of the weights.

    If the distribution of the observed site is :class:`~pyro_options.growth.Weighable`, everything that does not depend
    on the weights is computed once; otherwise each call runs the model.
    """

    def __init__(self, scene: Scene, rows: Any):
        device = scene.require_data().device
        groups = row_groups(rows, scene.batch_size, device)
        self._parts = [self._part(scene, rows, index) for index in groups]
        self._place = torch.cat(groups).argsort().to(device)  # of each row among those of all batches

    def _part(self, scene: Scene, rows: Any, index: Tensor) -> Callable[[Tensor], Tensor]:
        with torch.no_grad():
            fn, value = scene.observed(take_rows(rows, index), _even(scene))
            log_prob = fn.weighed(value) if isinstance(fn, Weighable) else None
        if log_prob is not None:
            return lambda log_weights: log_prob(log_weights + math.log1p(-LEFT))

        def run_again(log_weights: Tensor) -> Tensor:
            fn, value = scene.observed(take_rows(rows, index), log_weights)
            return fn.log_prob(value)

        return run_again

    @torch.no_grad()
    def __call__(self, log_weights: Tensor) -> Tensor:
        """Log-likelihoods ``(rows,)``."""
        return torch.cat([part(log_weights) for part in self._parts])[self._place]

    def refit(self, log_weights: Tensor, steps: int = 5) -> Tensor:
        """Log weights ``(K,)`` after ``steps`` of expectation maximization over the weights.

        The gradient of the log-likelihood with respect to a log weight is the expected number of times that the
        component is drawn, so the E-step needs the likelihood alone. Components that are :data:`ABSENT` stay absent.
        """
        absent = log_weights <= ABSENT
        for _ in range(steps):
            log_weights = torch.log_softmax(log_weights, -1).masked_fill(absent, ABSENT).requires_grad_()
            counts = torch.zeros_like(log_weights)
            for part in self._parts:
                counts += torch.autograd.grad(part(log_weights).sum(), log_weights)[0]
            log_weights = torch.log(counts.clamp(min=1e-12))
        return torch.log_softmax(log_weights.detach(), -1).masked_fill(absent, ABSENT)


@dataclass(frozen=True)
class Newborns(Scene):
    """A scene to whose modules :func:`~pyro_options.growth.grow` has just added components.

    ``log_weights`` and ``usage`` are those of the components before the birth.
    """

    index: Sequence[int] = ()  # indices of the new components
    used_rows: set[int] = field(default_factory=set)  # rows that the birth was fitted to
    notes: dict[str, Tensor] = field(default_factory=dict)  # results of the birth that the rule may reuse

    def trial_weights(self, share: float) -> Tensor:
        """Log weights with a total of ``share`` for the new components and the rest for the old ones."""
        old = torch.log_softmax(self.require_data(), -1)
        each = ABSENT if share == 0 else math.log(share / len(self.index))
        return torch.cat([old + math.log1p(-share), old.new_full((len(self.index),), each)])

    def unseen_rows(self) -> list[int]:
        return [row for row in range(len(self.data)) if row not in self.used_rows]
