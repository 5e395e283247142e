"""Dirichlet-process mixtures of regressions."""

import pyro
import torch
from pyro import distributions as dist
from pyro.nn import PyroModule
from torch import Tensor, nn

from pyro_options.distributions.mixture import Mixture
from pyro_options.errors import check
from pyro_options.growth.growable import Growable

from .gem import high_level_prior


class LinearExperts(Growable, nn.Module):
    r"""K linear regressions with Gaussian noise, :math:`N(w_k\cdot x + b_k, \sigma_k)`.

    :param in_features: size of x
    :param num_components: K
    """

    component_axes = {"weight": 0, "bias": 0, "log_scale": 0}

    def __init__(self, in_features: int, num_components: int = 1):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_components, in_features))
        self.bias = nn.Parameter(torch.randn(num_components))
        self.log_scale = nn.Parameter(torch.zeros(num_components))

    def fresh(self, name, count):
        noise = torch.randn(count, *getattr(self, name).shape[1:])
        return 0 * noise if name == "log_scale" else noise

    def forward(self, x: Tensor) -> dist.Normal:
        """The distribution of y under each regression, batch shape ``(N, K)``."""
        return dist.Normal(x @ self.weight.T + self.bias, torch.exp(self.log_scale))


class DPRegressions(PyroModule):
    r"""A mixture of regressions with a stick-breaking prior over their weights; which one made a row is summed out.

    .. math:: p(\eta)\prod_k p(\theta_k)\prod_i \sum_k \eta_k\,p(y_i\mid x_i,\theta_k)

    Sites: ``sticks`` of event shape ``(K,)``, the factor ``experts``, :math:`\log p(\theta)`, and ``y`` in the plate
    ``data``. A row holds x and y, so that rows are one tensor that growth can index.

    :param experts: growable regressions; ``experts(x)`` is a distribution of batch shape ``(N, K)``
    :param prior: ``gem`` (nonparametric, K may grow), ``truncated`` (K fixed), or a module such as :class:`GEM`
    :param scale: standard deviation of a Normal prior over every parameter of the regressions
    """

    #: no latent site is left to sum out
    latents: dict[str, str] = {}

    def __init__(self, experts: nn.Module, prior: str | PyroModule = "gem", scale: float = 5.0):
        super().__init__()
        check(scale > 0, "scale > 0", scale)
        self.experts, self.scale = experts, scale
        self.high_level = high_level_prior(prior) if isinstance(prior, str) else prior

    def forward(self, rows: Tensor, log_weights: Tensor | None = None, population: int | None = None) -> Tensor:
        """Runs the generative process; with ``log_weights`` given, η is not sampled.

        :param rows: ``(N, D + 1)``, x and then y
        :param population: number of rows of which these are a minibatch
        """
        experts = self.experts
        if log_weights is None:
            log_weights = self.high_level(experts.num_components)  # (K,)
        log_priors = [dist.Normal(torch.zeros_like(p), self.scale).log_prob(p).sum() for p in experts.parameters()]
        pyro.factor("experts", sum(log_priors))
        size = len(rows) if population is None else population
        with pyro.plate("data", size, subsample=torch.arange(len(rows), device=rows.device)):
            return pyro.sample("y", Mixture(log_weights, experts(rows[:, :-1])), obs=rows[:, -1])
