"""What births, removals and rules can access: modules, data, and the likelihood of rows under given weights."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from pyro import poutine
from torch import Tensor, nn

from pyro_options.errors import check

from .contracts import ComponentLikelihood, TransitionWeights, Weighable, fulfills, row_groups, take_rows
from .growable import axes_of, fitting, growables, involved
from .maximization import em_step
from .resizing import num_components
from .usage import Usage
from .workers import ALONE, Workers

#: log weight of a component that is switched off; finite, because ``logaddexp`` of infinities has NaN gradients
ABSENT = -70.0

#: mass that trial weights leave unassigned, so that a model can convert them to sticks: the last stick stays below one
LEFT = 1e-4

#: draws from its initial weights that each of several weight vectors counts as observed: some may see little data
PSEUDO_DRAWS = 30.0

#: steps of expectation maximization after a fit
EM_STEPS = 2


@dataclass
class Baseline:
    """What removals have cost the held-out rows so far, in nats, as far as training has not made up for it.

    Between two checks training may also lower their log-likelihood, when it fits the rows trained on too closely. That
    is no reason to keep components: it does not count.
    """

    debt: float = 0.0  # losses by removals that training has not made up for
    after: float = math.inf  # log-likelihood of all held-out rows together after the last check

    def loss(self, now: float) -> float:
        """The debt that is left.

        :param now: the log-likelihood of all held-out rows together before the removals of a check
        """
        self.debt = max(0.0, self.debt - max(0.0, now - self.after))
        self.after = now
        return self.debt

    def record(self, gain: float) -> None:
        """Counts the gain, usually a loss, of the removals of a check."""
        self.debt = max(0.0, self.debt - gain)
        self.after += gain


@dataclass(frozen=True)
class Scene:
    """The modules to resize, their data, and the log-likelihood of each row under any weights.

    :param modules: modules with growable layers, usually ``[model, guide]``
    :param usage: usage of the components at this check
    :param site: the observed site
    :param log_weights: mean log weights of the components, ``(K,)``, or ``(R, K)`` for R weight vectors over the same
        components; the last K belong to the components if a layer has ``row_per_component``
    :param model: ``model(rows, log_weights)`` runs the model under given weights with its latent sites summed out; a
        lower bound per row, even a stochastic one, works as well
    :param data: all the rows; has a length and can be indexed by a tensor of indices
    :param held_out: rows on which moves are evaluated; by default those of ``data`` that the move was not fitted to
    :param batch_size: rows to evaluate at a time
    :param baseline: what earlier removals have cost the held-out rows, which counts against further ones
    :param workers: the processes that share the rows
    """

    modules: Sequence[nn.Module]
    usage: Usage
    site: str
    log_weights: Tensor | None = None
    model: Callable | None = None
    data: Any = None
    held_out: Any = None
    batch_size: int = 128
    baseline: "Baseline | None" = None
    workers: Workers = ALONE

    def without(self, gone: Sequence[int]) -> "Scene":
        """The same scene without the components ``gone``, which were removed from the modules."""
        if not gone:
            return self
        weights = None if self.log_weights is None else self.kept(self.log_weights, gone)
        return replace(self, usage=self.usage.without(list(gone)), log_weights=weights)

    @property
    def row_per_component(self) -> bool:
        """Whether the last K of several weight vectors belong to the components."""
        layers = growables(self.modules)
        return any(isinstance(layer, TransitionWeights) and layer.row_per_component for layer in layers)

    def kept(self, log_weights: Tensor, gone: Sequence[int]) -> Tensor:
        """The log weights without the components ``gone``, their weight vectors included."""
        K = log_weights.shape[-1]
        keep = [k for k in range(K) if k not in gone]
        if self.row_per_component:
            first = len(log_weights) - K
            log_weights = log_weights[[*range(first), *(first + k for k in keep)]]
        return log_weights[..., keep]

    def even_weights(self) -> Tensor:
        """Equal log weights for the components that the modules have now."""
        given, K = self.require_data(), num_components(self.modules)
        more = K - given.shape[-1] if self.row_per_component else 0
        return given.new_full((*(size + more for size in given.shape[:-1]), K), -math.log(K))

    def require_data(self) -> Tensor:
        """The mean log weights; an error unless model, data and weights were given."""
        given = self.model is not None and self.data is not None and self.log_weights is not None
        check(given, "a model, data and weights to look at", "none", "Give them to GrowthMessenger.step.")
        assert self.log_weights is not None
        return self.log_weights

    def observed(self, rows: Any, log_weights: Tensor) -> tuple[Any, Any]:
        """Distribution and value of the observed site for these rows.

        :param log_weights: of weights that sum to one; scaled here to leave ``LEFT`` unassigned
        """
        return self._observed(rows, log_weights + math.log1p(-LEFT))

    def _observed(self, rows: Any, weights: Tensor) -> tuple[Any, Any]:
        """The same under weights that are taken as they are."""
        assert self.model is not None
        with self.workers.own_draws():
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
        one = take_rows(self.data, torch.zeros(1, dtype=torch.long, device=weights.device))
        fn, value = self.observed(one, self.even_weights())
        grads = torch.autograd.grad(fn.log_prob(value).sum(), [p for p, _ in parameters], allow_unused=True)
        return sum(p.numel() // K for (p, _), grad in zip(parameters, grads) if grad is not None)

    def _parameters(self) -> list[tuple[nn.Parameter, tuple[int, ...]]]:
        """Trained parameters with parts for the components, and the axes of the components."""
        return [
            (getattr(layer, name), axes_of(layer, name))
            for layer in growables(self.modules)
            for name in layer.component_axes
            if getattr(layer, name).requires_grad
        ]

    def likelihood(self, rows: Any) -> "RowLikelihood":
        """The log-likelihood of these rows as a function of the weights, with the components as they are now."""
        return RowLikelihood(self, rows)

    def fit(
        self,
        index: Sequence[int],
        rows: Any,
        log_weights: Tensor,
        steps: int,
        learning_rate: float,
        give_up: Callable[[int], bool] = lambda step: False,
    ) -> None:
        """Maximizes the likelihood of ``rows`` over the parameters of the components ``index`` alone.

        With Adam, and then by steps of expectation maximization if the model can take them.

        :param give_up: asked after each step, by its number, whether to end here
        """
        parameters = [_Entries(p, axes, index) for p, axes in self._parameters()]
        moving = [nn.Parameter(entries.to_train()) for entries in parameters]
        fused = log_weights.device.type != "cpu"  # one launch a step instead of a dozen for each parameter
        optimizer = torch.optim.Adam(moving, lr=learning_rate, fused=fused)
        shares = map(self.workers.share, row_groups(rows, device=log_weights.device))
        batches = [take_rows(rows, own) for own, share in shares if share]
        weights = log_weights + math.log1p(-LEFT)
        slope = log_weights.new_full((1,), -1 / len(rows))  # of minus the mean
        with fitting(self.modules, index):
            for step in range(1, steps + 1):
                optimizer.zero_grad()
                for batch in batches:
                    fn, value = self._observed(batch, weights)
                    log_prob = fn.log_prob(value)
                    own_parameters = [one.parameter for one in parameters]
                    slopes = slope.to(log_prob).expand_as(log_prob)
                    grads = torch.autograd.grad(log_prob, own_parameters, slopes, allow_unused=True)
                    for own, grad, entries in zip(moving, grads, parameters):
                        if grad is not None:
                            part = entries.of(grad)
                            own.grad = part if own.grad is None else own.grad + part
                self.workers.add_gradients(moving)
                with torch.no_grad():
                    optimizer.step()
                    for own, entries in zip(moving, parameters):
                        if own.grad is not None:
                            entries.set(own)
                if give_up(step):
                    return
        for _ in range(EM_STEPS):
            for module in self.modules:
                em_step(module, lambda batch: self.observed(batch, log_weights), batches, index, self.workers)


class _Entries:
    """The entries of a parameter that belong to some components along at least one of its axes of components.

    A single axis is indexed, which is faster than a mask of all entries.
    """

    def __init__(self, parameter: Tensor, axes: Sequence[int], index: Sequence[int]):
        self.parameter, self.axis = parameter, axes[0]
        self.index = torch.tensor(list(index), device=parameter.device)
        self.mask = involved(parameter, axes, self.index) if len(axes) > 1 else None
        first = min(index)
        self.run = (first, len(index)) if list(index) == list(range(first, first + len(index))) else None

    def of(self, tensor: Tensor) -> Tensor:
        """These entries of a tensor of the same shape; a view of those of consecutive components."""
        if self.mask is not None:
            return tensor[self.mask]
        return tensor.index_select(self.axis, self.index) if self.run is None else tensor.narrow(self.axis, *self.run)

    @property
    def _in_place(self) -> bool:
        """Whether the entries lie together, and can be trained where they are."""
        return self.mask is None and self.run is not None and self.axis == 0

    def to_train(self) -> Tensor:
        """The entries as a tensor to train: themselves if they lie together, or a copy for :meth:`set`."""
        entries = self.of(self.parameter.detach())
        return entries if self._in_place else entries.clone()

    def set(self, values: Tensor) -> None:
        """Sets these entries of the parameter, unless it was they that were trained."""
        if self._in_place:
            return
        if self.mask is None:
            self.parameter.index_copy_(self.axis, self.index, values)
        else:
            self.parameter.masked_scatter_(self.mask, values)


class RowLikelihood:
    """The log-likelihood of each of some rows as a function of the weights.

    If the distribution of the observed site is :class:`~pyro_options.growth.Weighable`, everything that does not depend
    on the weights is computed once; otherwise each call runs the model.
    """

    def __init__(self, scene: Scene, rows: Any):
        device = scene.require_data().device
        self._workers, self._count = scene.workers, len(rows)
        shares = map(scene.workers.share, row_groups(rows, scene.batch_size, device))
        groups = [own for own, share in shares if share]
        self._parts = [self._part(scene, rows, index) for index in groups]
        self._index = torch.cat([torch.zeros(0, dtype=torch.long), *(one.cpu() for one in groups)]).to(device)

    def _part(self, scene: Scene, rows: Any, index: Tensor) -> Callable[[Tensor], Tensor]:
        with torch.no_grad():
            fn, value = scene.observed(take_rows(rows, index), scene.even_weights())
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
        found = [log_weights.new_zeros(0), *(part(log_weights) for part in self._parts)]
        return self._workers.collect(torch.cat(found), self._index, self._count)

    def refit(self, log_weights: Tensor, steps: int = 5) -> Tensor:
        """Log weights after ``steps`` of expectation maximization over the weights.

        The gradient of the log-likelihood with respect to a log weight is the expected number of times that the
        component is drawn, so the E-step needs the likelihood alone. Components that are :data:`ABSENT` stay absent.
        Several weight vectors have :data:`PSEUDO_DRAWS` of their initial weights each: fitting all of them freely would
        favour more components.
        """
        absent = log_weights <= ABSENT
        start = torch.softmax(log_weights.masked_fill(absent, ABSENT), -1)
        pseudo_draws = PSEUDO_DRAWS * start if log_weights.dim() > 1 else 0.0
        for _ in range(steps):
            log_weights = torch.log_softmax(log_weights, -1).masked_fill(absent, ABSENT).requires_grad_()
            counts = torch.zeros_like(log_weights)
            for part in self._parts:
                counts += torch.autograd.grad(part(log_weights).sum(), log_weights)[0]
            counts = self._workers.sum(counts)
            log_weights = torch.log((counts + pseudo_draws).clamp(min=1e-12))
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
        if self.row_per_component:  # the weight vector of a new component starts as the average of the others
            mean = torch.logsumexp(old, 0, keepdim=True) - math.log(len(old))
            old = torch.cat([old, mean.expand(len(self.index), -1)])
        return torch.cat([old + math.log1p(-share), old.new_full((*old.shape[:-1], len(self.index)), each)], -1)

    def split_weights(self, parents: Sequence[int]) -> Tensor:
        """Log weights with those of ``parents`` divided evenly between each of them and its children.

        :param parents: of the new components, in order; a new component has a copy of its parent's weight vector
        """
        old = torch.log_softmax(self.require_data(), -1)
        family = 1 + torch.bincount(torch.tensor(parents), minlength=old.shape[-1]).to(old)
        shared = old - torch.log(family)
        if self.row_per_component:
            first = len(shared) - shared.shape[-1]
            shared = torch.cat([shared, shared[[first + parent for parent in parents]]])
        return torch.cat([shared, shared[..., list(parents)]], -1)

    def unseen_rows(self) -> list[int]:
        return [row for row in range(len(self.data)) if row not in self.used_rows]
