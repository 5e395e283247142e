"""Growable Gaussian components with normal-Wishart posteriors over means and precisions."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pyro_options.errors import check, choice
from pyro_options.growth.growable import Growable

from .normal_wishart import BeliefGaussian, NormalWishart, log_det_shift


def _factors(precision: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """``log_diagonal`` and ``upper`` of the :class:`NormalWishart` with this expected precision ``(..., D, D)``."""
    R = torch.linalg.cholesky(precision, upper=True)
    diagonal = R.diagonal(dim1=-2, dim2=-1)
    return torch.log(diagonal).to(like), (R / diagonal.unsqueeze(-1)).to(like)


#: bounds of the learned κ₀ and of ν₀ - (D + 1), the pseudo-counts of the prior
_KAPPA = (1e-3, 1e2)
_DOF = (1.0, 1e2)
_INITIAL_LOG_KAPPA = -2.0

#: least variance of a component under the prior, relative to the data: rounded or equal values would make it zero
_FLOOR = 1e-4


class GaussianComponents(Growable, nn.Module):
    r"""Gaussians with a learned normal-Wishart prior and normal-Wishart posteriors.

    .. math:: \Lambda_k\sim W(\bar\Lambda/\nu_0, \nu_0), \quad \mu_k\sim N(0, (\kappa_0\Lambda_k)^{-1}), \quad
        q(\mu_k,\Lambda_k) = \text{normal-Wishart with } \kappa_0 + n_k \text{ and } \nu_0 + n_k

    in units in which the data have mean 0 and variance 1. The posterior keeps a component of few points broad, so none
    collapses on a single point, and :meth:`divergence` penalizes every component. All hyperparameters of the prior are
    learned: :math:`\bar\Lambda` is the average precision of components, :math:`\nu_0` how similar their precisions are,
    :math:`\kappa_0` how close their means are. So the covariance of a component of few points is shrunk towards that of
    the others, and if all covariances are alike, a new component costs little more than its mean.

    :param rows: data ``(N, D)``, for the units only
    :param num_components: K
    :param covariance: ``full`` or ``diagonal``
    """

    component_axes = {"loc": 0, "log_diagonal": 0, "upper": 0, "log_count": 0}
    shared = ("prior_log_diagonal", "prior_upper", "log_kappa", "log_dof")
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
        self.prior_log_diagonal = nn.Parameter(torch.zeros(blocks, size))
        self.prior_upper = nn.Parameter(torch.zeros(blocks, size, size))
        self.log_kappa = nn.Parameter(torch.full((), _INITIAL_LOG_KAPPA))
        self.log_dof = nn.Parameter(torch.zeros(()))
        self.loc = nn.Parameter(torch.randn(num_components, blocks, size))
        self.log_diagonal = nn.Parameter(torch.zeros(num_components, blocks, size))
        self.upper = nn.Parameter(torch.zeros(num_components, blocks, size, size))
        self.log_count = nn.Parameter(torch.full((num_components,), self._initial_log_count()))

    def _initial_log_count(self) -> float:
        return float(torch.tensor(1.0 + self.num_rows / 10).log())

    def fresh(self, name, count):
        """A random mean, standard normal like the data, and the median scale of the existing components."""
        shape = (count, *getattr(self, name).shape[1:])
        if name == "loc":
            return torch.randn(shape)
        if name == "log_diagonal":
            return self.log_diagonal.detach().quantile(0.5, 0).expand(shape)
        return torch.zeros(shape) if name == "upper" else torch.full(shape, self._initial_log_count())

    @torch.no_grad()
    def inherit(self, child, parent, noise):
        """The posterior of the parent, its mean displaced at random by ``noise`` standard deviations."""
        direction = torch.randn_like(self.loc[child]) * torch.exp(-self.log_diagonal[parent])
        for name in ("log_diagonal", "upper", "log_count"):
            getattr(self, name)[child] = getattr(self, name)[parent]
        self.loc[child] = self.loc[parent] + noise * direction

    def prior(self) -> NormalWishart:
        """The prior, of leading shape ``(1, blocks)``."""
        loc = torch.zeros_like(self.loc[:1])
        kappa, nu = (x.expand(loc.shape[:-1]) for x in (torch.exp(self.log_kappa), self._nu()))
        return NormalWishart(loc, self.prior_log_diagonal.unsqueeze(0), self.prior_upper.unsqueeze(0), kappa, nu)

    def belief(self) -> NormalWishart:
        """The posterior q, of leading shape ``(K, blocks)``."""
        count = torch.exp(self.log_count).unsqueeze(-1).expand(self.loc.shape[:-1])
        kappa, nu = torch.exp(self.log_kappa) + count, self._nu() + count
        return NormalWishart(self.loc, self.log_diagonal, self.upper, kappa, nu)

    def _nu(self) -> Tensor:
        return self.loc.shape[-1] + 1 + torch.exp(self.log_dof)  # above D + 1, so that the covariance has a mean

    def forward(self) -> BeliefGaussian:
        """Expected log-densities under q, batch shape ``(K,)``."""
        return BeliefGaussian(self.belief(), self.center, self.scale)

    def predictive(self) -> BeliefGaussian:
        """Posterior predictive of each component, a Student's t, batch shape ``(K,)``."""
        return BeliefGaussian(self.belief(), self.center, self.scale, predictive=True)

    def prior_predictive(self) -> BeliefGaussian:
        """Prior predictive, of a component not yet created, batch shape ``(1,)``."""
        return BeliefGaussian(self.prior(), self.center, self.scale, predictive=True)

    def divergence(self) -> Tensor:
        """KL(q || prior) of each component ``(K,)``."""
        return self.belief().divergence(self.prior()).sum(-1)

    @torch.no_grad()
    def absorb(self, rows: Tensor, responsibilities: Tensor, index: Sequence[int] | None = None) -> None:
        """Sets q to its optimum given the responsibilities of the rows, a step of coordinate ascent.

        :param rows: ``(N, D)``
        :param responsibilities: ``(N, K)``, or a column for each of ``index``
        :param index: the components to change, all by default
        """
        chosen = slice(None) if index is None else list(index)
        blocks, size = self.loc.shape[1:]
        rows = ((rows - self.center) / self.scale).double().unflatten(-1, (blocks, size))  # (N, blocks, size)
        shares, kappa = responsibilities.double(), torch.exp(self.log_kappa).double()
        count = shares.sum(0).clamp(min=1e-3)[:, None, None]  # (K, 1, 1)
        loc = torch.tensordot(shares.T, rows, 1) / (kappa + count)
        squares = (rows.unsqueeze(-1) * rows.unsqueeze(-2)).flatten(1)
        scatter = (shares.T @ squares).unflatten(-1, (blocks, size, size))
        scatter = scatter - (kappa + count).unsqueeze(-1) * loc.unsqueeze(-1) * loc.unsqueeze(-2)
        R = self.prior().factor.double()
        nu = self._nu().double()
        total = scatter + nu * torch.linalg.inv(R.mT @ R)
        precision = torch.linalg.inv(total) * (nu + count).unsqueeze(-1)
        self.loc[chosen] = loc.to(self.loc)
        self.log_diagonal[chosen], self.upper[chosen] = _factors(precision, self.upper)
        self.log_count[chosen] = torch.log(count.flatten()).to(self.log_count)

    @torch.no_grad()
    def learn_prior(self) -> None:
        """Sets the prior to the one with the least KL divergence of all q, a step of coordinate ascent."""
        q = self.belief()
        D, prior = q.size, self.prior()
        precision = (q.factor.mT @ q.factor).double().mean(0)  # (blocks, D, D)
        precision = torch.linalg.inv(torch.linalg.inv(precision) + _FLOOR * torch.eye(D).to(precision))
        log_diagonal, upper = _factors(precision, self.prior_upper)
        self.prior_log_diagonal.copy_(log_diagonal)
        self.prior_upper.copy_(upper)
        kappa = D / (D / q.kappa + q.distance(prior.loc)).mean()
        self.log_kappa.copy_(torch.log(kappa.clamp(*_KAPPA)))
        spread = (q.log_det + q.log_det_shift).mean(0) - 2 * log_diagonal.sum(-1)  # (blocks,)
        grid = torch.linspace(*torch.tensor(_DOF).log().tolist(), 512).to(spread)
        rising = log_det_shift(D + 1 + torch.exp(grid), D)  # the optimal ν₀ matches the average log-determinant
        self.log_dof.copy_(grid[torch.searchsorted(rising, spread.mean()).clamp(max=len(grid) - 1)])

    @torch.no_grad()
    def loosen_prior(self) -> None:
        """Resets ν₀ and bounds κ₀ by its initial value, so that components may become different; keeps the average."""
        self.log_dof.zero_()
        self.log_kappa.clamp_(max=_INITIAL_LOG_KAPPA)

    @torch.no_grad()
    def means(self) -> Tensor:
        """``(K, D)`` in the units of the data."""
        return self.loc.flatten(1) * self.scale + self.center

    @torch.no_grad()
    def covariances(self) -> Tensor:
        """Inverse expected precisions ``(K, D, D)`` in the units of the data."""
        R = self.belief().factor
        blocks = torch.linalg.inv(R.mT @ R)  # (K, blocks, size, size)
        whole = torch.stack([torch.block_diag(*one) for one in blocks])
        return whole * self.scale * self.scale.unsqueeze(-1)
