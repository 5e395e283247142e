"""Growable Gaussian components, whose means and covariances are known as well as the data allow."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pyro_options.distributions.normal_wishart import BeliefGaussian, NormalWishart
from pyro_options.errors import check, choice

from .growable import Growable


class GaussianComponents(Growable, nn.Module):
    r"""Gaussians with a conjugate prior, and a belief about each of them.

    .. math:: \Lambda_k\sim W(I/s, \nu_0), \quad \mu_k\sim N(0, (\kappa_0\Lambda_k)^{-1}), \quad
        q(\mu_k,\Lambda_k) = \text{normal-Wishart with } \kappa_0 + n_k \text{ and } \nu_0 + n_k

    in units in which the data have mean 0 and variance 1. The belief makes a component that explains n points as broad
    as n points allow, so none collapses on a point, and :meth:`divergence` charges for every component. The prior's
    scatter s and :math:`\kappa_0` are learned: they find how narrow components are among the data.

    :param rows: data ``(N, D)`` that set the units
    :param covariance: ``full`` or ``diagonal``
    """

    component_axes = {"loc": 0, "log_diagonal": 0, "upper": 0, "log_count": 0}
    center: Tensor
    scale: Tensor

    def __init__(self, rows: Tensor, num_components: int = 1, covariance: str = "full"):
        super().__init__()
        check(rows.dim() == 2 and len(rows) >= 2, "at least two rows (N, D)", tuple(rows.shape))
        check(num_components >= 1, "num_components >= 1", num_components)
        choice(covariance, "covariance", ("full", "diagonal"))
        scale = rows.std(0)
        check(bool((scale > 0).all()), "columns that vary", "a constant one", "Drop it.")
        D = rows.shape[1]
        blocks, size = (1, D) if covariance == "full" else (D, 1)
        self.covariance, self.num_rows = covariance, len(rows)
        self.register_buffer("center", rows.mean(0))
        self.register_buffer("scale", scale)
        self.log_scatter = nn.Parameter(torch.zeros(()))
        self.log_kappa = nn.Parameter(torch.full((), -2.0))
        self.loc = nn.Parameter(torch.randn(num_components, blocks, size))
        self.log_diagonal = nn.Parameter(torch.zeros(num_components, blocks, size))
        self.upper = nn.Parameter(torch.zeros(num_components, blocks, size, size))
        self.log_count = nn.Parameter(torch.full((num_components,), self._initial_log_count()))

    def _initial_log_count(self) -> float:
        return float(torch.tensor(1.0 + self.num_rows / 10).log())

    def fresh(self, name, count):
        """A place among the data at random, and the spread of the narrowest half of the components."""
        shape = (count, *getattr(self, name).shape[1:])
        if name == "loc":
            return torch.randn(shape)
        if name == "log_diagonal":
            return self.log_diagonal.detach().quantile(0.5, 0).expand(shape)
        return torch.zeros(shape) if name == "upper" else torch.full(shape, self._initial_log_count())

    @torch.no_grad()
    def inherit(self, child, parent, noise):
        """The parent's Gaussian, displaced by ``noise`` of its standard deviations."""
        direction = torch.randn_like(self.loc[child]) * torch.exp(-self.log_diagonal[parent])
        for name in ("log_diagonal", "upper", "log_count"):
            getattr(self, name)[child] = getattr(self, name)[parent]
        self.loc[child] = self.loc[parent] + noise * direction

    def belief(self) -> NormalWishart:
        """q of leading shape ``(K, blocks)``."""
        count = torch.exp(self.log_count).unsqueeze(-1).expand(self.loc.shape[:-1])
        return NormalWishart(self.loc, self.log_diagonal, self.upper, self._kappa() + count, self._nu() + count)

    def _kappa(self) -> Tensor:
        return torch.exp(self.log_kappa)

    def _nu(self) -> Tensor:
        return torch.full_like(self.log_kappa, self.loc.shape[-1] + 2.0)  # the least at which E Λ⁻¹ has a variance

    def forward(self) -> BeliefGaussian:
        """Expected log-densities, batch shape ``(K,)``."""
        return BeliefGaussian(self.belief(), self.center, self.scale)

    def predictive(self) -> BeliefGaussian:
        """What each component predicts: Student's t."""
        return BeliefGaussian(self.belief(), self.center, self.scale, predictive=True)

    def prior_predictive(self) -> BeliefGaussian:
        """What a component not yet born predicts, batch shape ``(1,)``."""
        loc, kappa, nu = torch.zeros_like(self.loc[:1]), self._kappa(), self._nu()
        log_diagonal = 0.5 * (torch.log(nu) - self.log_scatter).expand(loc.shape)
        kappa, nu = kappa.expand(loc.shape[:-1]), nu.expand(loc.shape[:-1])
        belief = NormalWishart(loc, log_diagonal, torch.zeros_like(self.upper[:1]), kappa, nu)
        return BeliefGaussian(belief, self.center, self.scale, predictive=True)

    def divergence(self) -> Tensor:
        """KL(q || prior) of each component ``(K,)``."""
        zero = torch.zeros_like(self.loc)
        return self.belief().divergence(zero, self.log_scatter, self._kappa(), self._nu()).sum(-1)

    @torch.no_grad()
    def absorb(self, rows: Tensor, responsibilities: Tensor, index: Sequence[int] | None = None) -> None:
        """Sets the belief to the best one when rows belong to components in these shares: coordinate ascent.

        :param responsibilities: ``(N, K)``, or a column for each of ``index``
        :param index: the components to change, all by default
        """
        chosen = slice(None) if index is None else list(index)
        rows = ((rows - self.center) / self.scale).unflatten(-1, self.loc.shape[1:])  # (N, blocks, size)
        count = responsibilities.sum(0).clamp(min=1e-3)  # (K,)
        mean = torch.einsum("nk,nbd->kbd", responsibilities, rows) / count[:, None, None]
        centred = rows.unsqueeze(1) - mean  # (N, K, blocks, size)
        scatter = torch.einsum("nk,nkbd,nkbe->kbde", responsibilities, centred, centred)
        kappa = (self._kappa() + count)[:, None, None]
        shift = (self._kappa() * count)[:, None, None] / kappa
        scatter = scatter + shift.unsqueeze(-1) * mean.unsqueeze(-1) * mean.unsqueeze(-2)
        scatter = scatter + torch.exp(self.log_scatter) * torch.eye(mean.shape[-1]).to(mean)
        precision = torch.linalg.inv(scatter) * (self._nu() + count)[:, None, None, None]
        R = torch.linalg.cholesky(precision, upper=True)
        diagonal = R.diagonal(dim1=-2, dim2=-1)
        self.loc[chosen] = count[:, None, None] * mean / kappa
        self.log_diagonal[chosen] = torch.log(diagonal)
        self.upper[chosen] = R / diagonal.unsqueeze(-1)
        self.log_count[chosen] = torch.log(count)

    @torch.no_grad()
    def means(self) -> Tensor:
        """``(K, D)`` in the units of the data."""
        return self.loc.flatten(1) * self.scale + self.center

    @torch.no_grad()
    def covariances(self) -> Tensor:
        """Inverse expected precisions ``(K, D, D)`` in the units of the data."""
        size = self.loc.shape[-1]
        R = torch.exp(self.log_diagonal).unsqueeze(-1) * (torch.triu(self.upper, 1) + torch.eye(size).to(self.upper))
        blocks = torch.linalg.inv(R.mT @ R)  # (K, blocks, size, size)
        whole = torch.stack([torch.block_diag(*one) for one in blocks])
        return whole * self.scale * self.scale.unsqueeze(-1)
