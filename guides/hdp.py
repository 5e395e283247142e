"""The posterior over the weights of a hierarchical Dirichlet process."""

import pyro
import torch
from pyro.nn import PyroModule
from torch import Tensor, nn

from pyro_options.distributions.root_finding import bisect
from pyro_options.distributions.sticks import LogitKumaraswamy, log_stick_breaking
from pyro_options.errors import check
from pyro_options.growth.growable import Growable

from .gem import kept_sticks, mean_sticks, sticks_with_mean

_LARGE_B = 1e8  # above it lgamma(b) has lost the digits that its differences need


def _log_mean(log_a: Tensor, log_b: Tensor) -> Tensor:
    r"""log E[v] of Kumaraswamy sticks in float64, :math:`\log b\,B(1 + 1/a, b)`; asymptotic for large b."""
    b, c = torch.exp(log_b), 1 + torch.exp(-log_a)
    small = torch.minimum(b, torch.full_like(b, _LARGE_B))
    ratio = torch.lgamma(small) - torch.lgamma(small + c)
    return log_b + torch.lgamma(c) + torch.where(b > _LARGE_B, -c * log_b - c * (c - 1) / (2 * b), ratio)


def _solve_log_b(log_a: Tensor, mean: Tensor) -> Tensor:
    """The log b with the given mean. K x K sticks would take seconds by the quadrature that float32 needs."""
    log_a, log_mean = log_a.double(), torch.log(mean.double())
    low, high = (torch.full_like(log_a, edge) for edge in (-12.0, 80.0))
    return bisect(lambda log_b: _log_mean(log_a, log_b) - log_mean, low, high).to(mean)


class GrowableHDP(Growable, PyroModule):
    r"""A growable posterior over the weights of :class:`~pyro_options.models.HDP`: independent Kumaraswamy sticks.

    .. math:: q(\beta)\prod_j q(\pi_j), \qquad
        v_{k}\sim\mathrm{Kumaraswamy}(a_k, b_k), \quad v_{jk}\sim\mathrm{Kumaraswamy}(a_{jk}, b_{jk})

    Sites: ``sticks`` of event shape ``(K,)`` and ``row_sticks`` of event shape ``(R, K)``. Calling it returns log β and
    the log π below it, ``(1 + R, K)``. A new component takes its weight from the unassigned mass of every vector; its
    own vector, if it has one, starts at β. Pruning and permuting preserve the mean weights of the components kept.

    :param num_components: K
    :param num_rows: R; ``None`` for one vector after each component
    :param initial_mean: mean of a new stick
    """

    component_axes = {"log_a": 0, "log_b": 0, "row_log_a": (0, 1), "row_log_b": (0, 1)}

    def __init__(self, num_components: int, num_rows: int | None = None, initial_mean: float = 0.5):
        super().__init__()
        check(num_components >= 1, "num_components >= 1", num_components)
        check(num_rows is None or num_rows >= 1, "num_rows >= 1", num_rows)
        check(0 < initial_mean < 1, "initial_mean in (0, 1)", initial_mean)
        self.row_per_component = num_rows is None  #: whether the last K vectors are those after each component
        if not self.row_per_component:
            self.component_axes = {"log_a": 0, "log_b": 0, "row_log_a": 1, "row_log_b": 1}
        self.initial = {"a": 0.0, "b": float(torch.tensor(1 / initial_mean - 1).log())}
        K, rows = num_components, num_components if num_rows is None else num_rows
        for kind, value in self.initial.items():
            setattr(self, f"log_{kind}", nn.Parameter(torch.full((K,), value)))
            setattr(self, f"row_log_{kind}", nn.Parameter(torch.full((rows, K), value)))

    def fresh(self, name, count):
        value = torch.full_like(super().fresh(name, count), self.initial[name[-1]])
        if name.startswith("row_") and self.row_per_component:
            K = self.num_components
            value[K:, :K] = getattr(self, name.removeprefix("row_"))
        return value

    def _sticks(self) -> tuple[LogitKumaraswamy, LogitKumaraswamy]:
        """Of β and of the rows."""
        pairs = (self.log_a, self.log_b), (self.row_log_a, self.row_log_b)
        beta, rows = (LogitKumaraswamy(torch.exp(log_a), torch.exp(log_b)) for log_a, log_b in pairs)
        return beta, rows

    def mean_log_weights(self) -> Tensor:
        """log E[β] and log E[π] below it, ``(1 + R, K)``."""
        tiny = torch.finfo(self.log_a.dtype).tiny
        means = [one.mean_stick.clamp(tiny, 1 - 1e-7) for one in self._sticks()]
        beta, rows = (log_stick_breaking(torch.logit(mean)) for mean in means)
        return torch.cat([beta.unsqueeze(0), rows])

    def forward(self) -> Tensor:
        beta, rows = self._sticks()
        beta = log_stick_breaking(pyro.sample("sticks", beta.to_event(1)))
        return torch.cat([beta.unsqueeze(-2), log_stick_breaking(pyro.sample("row_sticks", rows.to_event(2)))], -2)

    def rearranged(self, keep):
        weights, found = torch.exp(self.mean_log_weights()), {}
        parts = ("", weights[0]), ("row_", weights[1:])
        for prefix, part in parts:
            log_a, log_b = (getattr(self, f"{prefix}log_{kind}").index_select(-1, keep) for kind in self.initial)
            mean, unmoved = kept_sticks(part, keep)
            moved = sticks_with_mean(log_a, mean, _solve_log_b)
            for kind, old, new in zip(self.initial, (log_a, log_b), moved):
                # Solving would change sticks by rounding: those before the first removed component keep their bits.
                value = torch.where(unmoved, old, new)
                rows = prefix and self.row_per_component
                found[f"{prefix}log_{kind}"] = value.index_select(0, keep) if rows else value
        return found

    def inherit(self, child, parent, noise):
        """Copies the vector of the parent; the weight of the child comes from the unassigned mass."""
        if self.row_per_component:
            for name in ("row_log_a", "row_log_b"):
                row = getattr(self, name).data
                row[child, :child] = row[parent, :child]

    def blend(self, heir, other, share):
        """Adds the mass of ``other`` to that of ``heir`` in every vector, and averages their own vectors."""
        weights = self.mean_log_weights().detach().exp()
        weights[:, heir] += weights[:, other]
        weights[:, other] = 0.0
        if self.row_per_component:
            weights[1 + heir] = torch.lerp(weights[1 + other], weights[1 + heir], share)
        self.assign(weights.log())

    @torch.no_grad()
    def assign(self, log_weights: Tensor) -> None:
        """Sets the mean weights.

        :param log_weights: ``(1 + R, K)``, or ``(K,)`` for all vectors alike, of weights that sum to less than one
        """
        K, rows = self.num_components, len(self.row_log_a)
        check(log_weights.shape in ((K,), (1 + rows, K)), f"weights {(1 + rows, K)}", tuple(log_weights.shape))
        mean = mean_sticks(torch.exp(log_weights)).expand(1 + rows, K)
        for log_a, log_b, one in ((self.log_a, self.log_b, mean[0]), (self.row_log_a, self.row_log_b, mean[1:])):
            solved = sticks_with_mean(log_a, one, _solve_log_b)
            log_a.copy_(solved[0])
            log_b.copy_(solved[1])

    def reweight(self, log_weights):
        self.assign(log_weights + torch.logsumexp(self.mean_log_weights().detach(), -1, keepdim=True))
