"""Normal-Wishart distributions over means and precisions, and the densities of rows under them."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints


def log_det_shift(nu: Tensor, size: int) -> Tensor:
    """E log \\|Λ\\| - log \\|E Λ\\| of a Wishart distribution ``(...)``, always negative."""
    order = torch.arange(size, dtype=nu.dtype, device=nu.device)
    digammas = torch.digamma((nu.unsqueeze(-1) - order) / 2).sum(-1)
    return digammas + size * (math.log(2) - torch.log(nu))


@dataclass(frozen=True)
class NormalWishart:
    r"""A distribution over the mean μ and precision Λ of Gaussians.

    .. math:: \Lambda\sim W(R^\top R/\nu, \nu), \qquad \mu\mid\Lambda\sim N(m, (\kappa\Lambda)^{-1})

    The expected precision is :math:`E\Lambda = R^\top R`, with R upper triangular. Leading dimensions are independent.
    """

    loc: Tensor  # (..., D) m
    log_diagonal: Tensor  # (..., D) logarithm of the diagonal of R
    upper: Tensor  # (..., D, D) rows of R divided by their diagonal entry; entries on or below the diagonal are ignored
    kappa: Tensor  # (...) pseudo-count of the mean
    nu: Tensor  # (...) degrees of freedom, above D - 1

    @property
    def size(self) -> int:
        """D."""
        return self.loc.shape[-1]

    @property
    def log_det(self) -> Tensor:
        """log \\|E Λ\\|."""
        return 2 * self.log_diagonal.sum(-1)

    @property
    def log_det_shift(self) -> Tensor:
        """E log \\|Λ\\| - log \\|E Λ\\|, always negative."""
        return log_det_shift(self.nu, self.size)

    def distance(self, value: Tensor) -> Tensor:
        """Squared Mahalanobis distance from m under E Λ.

        :param value: with at least as many dimensions as m
        """
        R, loc = self.factor, self.loc
        rows = value.reshape(-1, *value.shape[value.dim() - loc.dim() :])  # flat, for a single matrix product
        white = torch.einsum("...ij,n...j->n...i", R, rows) - (R @ loc.unsqueeze(-1)).squeeze(-1)
        return (white**2).sum(-1).reshape(torch.broadcast_shapes(value.shape, loc.shape)[:-1])

    def expected_log_prob(self, value: Tensor) -> Tensor:
        """E log N(x; μ, Λ)."""
        D = self.size
        log_det = self.log_det + self.log_det_shift - D * math.log(2 * math.pi)
        return 0.5 * (log_det - D / self.kappa - self.distance(value))

    def predictive_log_prob(self, value: Tensor) -> Tensor:
        """log E N(x; μ, Λ), a Student's t."""
        D, dof = self.size, self.nu - self.size + 1
        shrink = self.kappa / (self.kappa + 1) / self.nu  # the precision of the t is dof * shrink * E Λ
        log_det = self.log_det + D * torch.log(shrink)
        normalizer = torch.lgamma((dof + D) / 2) - torch.lgamma(dof / 2) + 0.5 * (log_det - D * math.log(math.pi))
        return normalizer - 0.5 * (dof + D) * torch.log1p(shrink * self.distance(value))

    @property
    def factor(self) -> Tensor:
        """R ``(..., D, D)``."""
        unit = torch.triu(self.upper, 1) + torch.eye(self.size).to(self.upper)
        return torch.exp(self.log_diagonal).unsqueeze(-1) * unit

    def divergence(self, prior: "NormalWishart") -> Tensor:
        """KL divergence to ``prior``, ``(...)``."""
        D = self.size
        ratio = prior.kappa / self.kappa
        mean = 0.5 * (D * (ratio - 1 - torch.log(ratio)) + prior.kappa * self.distance(prior.loc))
        relative = torch.linalg.solve_triangular(prior.factor, self.factor, upper=True, left=False)
        scatter = prior.nu * (relative**2).sum((-1, -2)) - self.nu * D
        log_dets = prior.log_det - self.log_det - D * torch.log(prior.nu / self.nu)
        digammas = self.log_det_shift + D * (torch.log(self.nu) - math.log(2))
        gammas = torch.mvlgamma(prior.nu / 2, D) - torch.mvlgamma(self.nu / 2, D)
        return mean + 0.5 * (prior.nu * log_dets + scatter) + gammas + 0.5 * (self.nu - prior.nu) * digammas


class BeliefGaussian(TorchDistribution):
    r"""Rows under Gaussians with :class:`NormalWishart` posteriors q.

    .. math:: \log p_k(x) = E_q\log N(x; \mu_k, \Lambda_k^{-1})

    so that the ELBO has no sampling noise from the parameters. Batch shape ``(K,)``, event shape ``(D,)``. A row is
    split into blocks of equal size with a posterior each: one block for a full covariance, one per entry for a diagonal
    one.

    :param belief: q, of leading shape ``(K, blocks)``
    :param center: q describes ``(row - center) / scale``, ``(D,)``
    :param scale: ``(D,)``
    :param predictive: ``log_prob`` is the posterior predictive :math:`\log E_q\,N` instead, a Student's t
    """

    arg_constraints: ClassVar[dict] = {}
    support = constraints.real_vector

    def __init__(self, belief: NormalWishart, center: Tensor, scale: Tensor, predictive: bool = False):
        self.belief, self.center, self.scale, self.predictive = belief, center, scale, predictive
        super().__init__(belief.loc.shape[:1], center.shape, validate_args=False)

    def expand(self, batch_shape, _instance=None):
        if torch.Size(batch_shape) != self.batch_shape:
            raise NotImplementedError("A belief has one batch dimension, its components.")
        return self

    def log_prob(self, value):
        rows = ((value - self.center) / self.scale).unflatten(-1, self.belief.loc.shape[-2:])
        log_prob = self.belief.predictive_log_prob if self.predictive else self.belief.expected_log_prob
        return log_prob(rows).sum(-1) - torch.log(self.scale).sum()

    def sample(self, sample_shape=torch.Size()):
        """Rows from Gaussians at the mean and the expected precision of q."""
        belief = self.belief
        with torch.no_grad():
            noise = torch.randn(torch.Size(sample_shape) + belief.loc.shape, dtype=belief.loc.dtype)
            noise = torch.linalg.solve_triangular(belief.factor, noise.to(belief.loc).unsqueeze(-1), upper=True)
            rows = belief.loc + noise.squeeze(-1)
            return rows.flatten(-2) * self.scale + self.center
