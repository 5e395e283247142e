"""Growable multinomial components for counts or categories, with Dirichlet posteriors."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor, nn
from torch.distributions import Dirichlet, constraints, kl_divergence

from pyro_options.distributions.root_finding import bisect
from pyro_options.errors import check
from pyro_options.growth.growable import Growable

#: bounds of log c, the learned concentration of the prior
_LOG_PRIOR = (-7.0, 5.0)


class BeliefMultinomial(TorchDistribution):
    r"""Counts under multinomials with Dirichlet posteriors :math:`q(\theta_k) = \mathrm{Dirichlet}(c_k)`.

    .. math:: E_q\log p(x\mid\theta_k) = \log\frac{n!}{\prod_v x_v!}
        + \sum_v x_v\,[\psi(c_{kv}) - \psi(\sum_u c_{ku})], \qquad n = \sum_v x_v

    with the digamma function :math:`\psi`. Batch shape ``(K,)``, event shape ``(V,)``.

    :param concentration: :math:`c`, ``(K, V)``
    :param predictive: ``log_prob`` is the posterior predictive :math:`\log E_q\,p(x\mid\theta_k)` instead
    """

    arg_constraints: ClassVar[dict] = {}
    support = constraints.independent(constraints.nonnegative, 1)

    def __init__(self, concentration: Tensor, predictive: bool = False):
        self.concentration, self.predictive = concentration, predictive
        super().__init__(concentration.shape[:1], concentration.shape[1:], validate_args=False)

    def log_prob(self, value):
        total = value.sum(-1)
        orders = torch.lgamma(total + 1) - torch.lgamma(value + 1).sum(-1)
        c, mass = self.concentration, self.concentration.sum(-1)
        if self.predictive:
            seen = (torch.lgamma(c + value) - torch.lgamma(c)).sum(-1)
            return orders + seen - torch.lgamma(mass + total) + torch.lgamma(mass)
        return orders + (value * (torch.digamma(c) - torch.digamma(mass).unsqueeze(-1))).sum(-1)


class CountComponents(Growable, nn.Module):
    r"""Multinomials with a symmetric Dirichlet prior and Dirichlet posteriors.

    .. math:: \theta_k\sim\mathrm{Dirichlet}(c, \ldots, c), \qquad x\mid k\sim\mathrm{Multinomial}(\theta_k)

    A row is a vector of counts ``(V,)``: words of a document, or one-hot categories. c is learned.

    :param num_values: V
    :param num_components: K
    """

    component_axes = {"log_counts": 0}
    shared = ("log_prior",)

    def __init__(self, num_values: int, num_components: int = 1):
        super().__init__()
        check(num_values >= 2, "num_values >= 2", num_values)
        check(num_components >= 1, "num_components >= 1", num_components)
        self.log_prior = nn.Parameter(torch.zeros(()))
        self.log_counts = nn.Parameter(0.5 * torch.randn(num_components, num_values))

    def fresh(self, name, count):
        return 0.5 * torch.randn(count, self.log_counts.shape[1])

    def _concentration(self) -> Tensor:
        return torch.exp(self.log_prior) + torch.exp(self.log_counts)

    def forward(self) -> BeliefMultinomial:
        """Expected log-densities under q, batch shape ``(K,)``."""
        return BeliefMultinomial(self._concentration())

    def predictive(self) -> BeliefMultinomial:
        """Posterior predictive of each component, batch shape ``(K,)``."""
        return BeliefMultinomial(self._concentration(), predictive=True)

    def prior_predictive(self) -> BeliefMultinomial:
        """Prior predictive, of a component not yet created, batch shape ``(1,)``."""
        return BeliefMultinomial(torch.exp(self.log_prior).expand(1, self.log_counts.shape[1]), predictive=True)

    @torch.no_grad()
    def absorb(self, rows: Tensor, responsibilities: Tensor, index: Sequence[int] | None = None) -> None:
        """Sets q to its optimum given the responsibilities of the rows, a step of coordinate ascent.

        :param rows: counts ``(N, V)``
        :param responsibilities: ``(N, K)``, or a column for each of ``index``
        :param index: the components to change, all by default
        """
        counts = torch.einsum("nk,nv->kv", responsibilities, rows)
        self.log_counts[slice(None) if index is None else list(index)] = torch.log(counts.clamp(min=1e-6))

    @torch.no_grad()
    def learn_prior(self) -> None:
        """Sets c to the value with the least KL divergence of all q, a step of coordinate ascent."""
        c = self._concentration()
        V = c.shape[-1]
        expected = (torch.digamma(c) - torch.digamma(c.sum(-1, keepdim=True))).mean()  # E log θ

        def slope(x: Tensor) -> Tensor:
            return torch.digamma(V * torch.exp(x)) - torch.digamma(torch.exp(x)) + expected

        low, high = (torch.full_like(expected, edge) for edge in _LOG_PRIOR)
        self.log_prior.copy_(bisect(slope, low, high, 25))

    def loosen_prior(self) -> None:
        """Does nothing: the symmetric prior does not shrink components towards each other."""

    def divergence(self) -> Tensor:
        """KL(q || prior) of each component ``(K,)``."""
        belief = self._concentration()
        prior = torch.exp(self.log_prior).expand_as(belief)
        return kl_divergence(Dirichlet(belief, validate_args=False), Dirichlet(prior, validate_args=False))
