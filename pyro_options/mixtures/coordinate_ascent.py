"""What conjugate components must offer, and coordinate ascent on their ELBO."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from pyro_options.distributions.mixture import Mixture


class Conjugate(Protocol):
    """Components with conjugate posteriors :math:`q(\\theta_k)`, and closed-form updates of q and of the prior."""

    def __call__(self) -> Any:
        """A distribution of batch shape ``(K,)`` whose ``log_prob`` is the expected log-density under q."""

    def absorb(self, rows: Tensor, responsibilities: Tensor, index: Sequence[int] | None = None) -> None:
        """Sets q to its optimum given the rows and their responsibilities."""

    def learn_prior(self) -> None:
        """Sets the hyperparameters of the prior to their optimum given q."""

    def loosen_prior(self) -> None:
        """Resets the hyperparameters that shrink components towards each other."""

    def divergence(self) -> Tensor:
        """KL(q || prior) of each component ``(K,)``."""

    def predictive(self) -> Any:
        """A distribution of batch shape ``(K,)`` whose ``log_prob`` is the posterior predictive density."""


def mean_log_shares(shares: Tensor) -> Tensor:
    """Log weights ``(K,)``: the average responsibility of each component."""
    return torch.log(shares.mean(0).clamp(min=1e-12))


@torch.no_grad()
def responsibilities(components: Conjugate, rows: Tensor, log_weights: Tensor) -> Tensor:
    """Responsibilities of the components for the rows ``(N, K)``."""
    return Mixture(log_weights, components()).responsibilities(rows)


@torch.no_grad()
def ascend(components: Conjugate, rows: Tensor, shares: Tensor, steps: int) -> Tensor:
    """Coordinate ascent on the ELBO over q, prior, weights and responsibilities in turn.

    :param shares: initial responsibilities ``(N, K)``
    :returns: the final responsibilities
    """
    for _ in range(steps):
        components.absorb(rows, shares)
        components.learn_prior()
        shares = responsibilities(components, rows, mean_log_shares(shares))
    return shares
