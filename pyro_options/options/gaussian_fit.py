"""Closed-form fits of the Gaussian dimensions of policies to steps that are weighted by option."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .policies import GaussianHeads

#: rounds in which weights and standard deviations are fitted in turn, and Newton steps for the latter
ROUNDS = 3


class GaussianSums(NamedTuple):
    """Sums over steps, each weighted by option, that determine the fit; inputs are features and a one for the bias."""

    gram: Tensor  # (K, P, P) of inputs by inputs
    cross: Tensor  # (K, P, A) of inputs by targets
    squares: Tensor  # (K, A) of squared targets
    count: Tensor  # (K,) of weights


class Moments(NamedTuple):
    """Expected targets of steps and their squares, the same for every option ``(n, 1, A)`` or of each ``(n, K, A)``."""

    first: Tensor
    second: Tensor


def observed_moments(targets: Tensor) -> Moments:
    """The moments of targets ``(n, A)`` that are known."""
    return Moments(targets.unsqueeze(1), targets.square().unsqueeze(1))


def censored_moments(targets: Tensor, low: Tensor, high: Tensor, mean: Tensor, log_scale: Tensor) -> Moments:
    r"""The moments of what each option would have commanded, had it not saturated.

    Of a target at a bound only the tail beyond it is known. With :math:`z = (l-\mu)/\sigma` and
    :math:`\lambda = \phi(z)/\Phi(z)` at a lower bound l, the expectations are :math:`\mu - \sigma\lambda` and
    :math:`\mu^2 - 2\mu\sigma\lambda + \sigma^2(1 - z\lambda)`.

    :param targets: ``(n, A)``
    :param low: bounds ``(A,)``, infinite where there is none
    :param high: the same
    :param mean: of each option ``(n, K, A)``
    :param log_scale: log standard deviations ``(K, A)``
    """
    first, second = (one.expand(mean.shape) for one in observed_moments(targets))
    sign = ((targets <= low).to(mean) - (targets >= high).to(mean)).unsqueeze(1)  # 1, -1, or 0 inside
    scale = log_scale.exp()
    z = sign * (targets.clamp(low, high).unsqueeze(1) - mean) / scale
    ratio = torch.exp(-z.square() / 2 - math.log(2 * math.pi) / 2 - torch.special.log_ndtr(z))
    beyond = mean - sign * scale * ratio
    square = mean.square() - 2 * sign * mean * scale * ratio + scale.square() * (1 - z * ratio)
    return Moments(torch.where(sign == 0, first, beyond), torch.where(sign == 0, second, square))


def weighted_sums(inputs: Tensor, targets: Moments, weights: Tensor) -> GaussianSums:
    """The sums over given steps.

    :param inputs: ``(n, P)``
    :param weights: ``(n, K)``
    """
    K = weights.shape[-1]
    first, second = (one.expand(-1, K, -1) for one in targets)
    parts = []
    for k, weight in enumerate(weights.T):
        weighted = inputs * weight.unsqueeze(-1)
        parts.append((weighted.T @ inputs, weighted.T @ first[:, k], weight @ second[:, k], weight.sum()))
    return GaussianSums(*(torch.stack(part) for part in zip(*parts)))


def ridge(sums: GaussianSums, precision: Tensor, smallest: float) -> tuple[Tensor, Tensor]:
    r"""Weighted linear regressions with Gaussian priors on the coefficients w and on the log standard deviations u.

    .. math:: \min_{w,u}\ \tfrac12 e^{-2u}\sum_t r_t (y_t - w^T x_t)^2 + u\sum_t r_t
        + \tfrac12\sum_p \lambda_p w_p^2 + \tfrac12\lambda_P u^2

    in turn over w, in closed form, and over u >= ``smallest``, by Newton's method on a convex function.

    :param precision: λ, ``(P,)``; the last, of the bias, is also that of u
    :returns: w ``(K, A, P)`` and u ``(K, A)``
    """
    cross, prior = sums.cross.mT.unsqueeze(-1), precision.to(sums.gram)  # (K, A, P, 1)
    count = sums.count.unsqueeze(-1)
    mean_square = sums.squares / count.clamp(min=1e-6)
    u = torch.log(mean_square.clamp(min=1e-12)).div(2).clamp(min=smallest)
    for _ in range(ROUNDS):
        shrinkage = torch.exp(2 * u).unsqueeze(-1) * prior  # (K, A, P)
        w = torch.linalg.solve(sums.gram.unsqueeze(1) + torch.diag_embed(shrinkage), cross).squeeze(-1)
        fitted = (w * (sums.gram.unsqueeze(1) @ w.unsqueeze(-1)).squeeze(-1)).sum(-1)
        left = (sums.squares - 2 * (w * cross.squeeze(-1)).sum(-1) + fitted).clamp(min=1e-12)
        u = torch.log(left / count.clamp(min=1e-6)).div(2).clamp(min=smallest)
        for _ in range(ROUNDS):
            curved = left * torch.exp(-2 * u)
            u = (u - (count - curved + prior[-1] * u) / (2 * curved + prior[-1])).clamp(min=smallest)
    return w, u


def has_gaussians(policy: Any) -> bool:
    """Whether a policy has Gaussian dimensions."""
    return isinstance(policy, GaussianHeads) and policy.center.numel() > 0


@torch.no_grad()
def fit_gaussians(
    policy: Any, sums: GaussianSums, precision: Tensor, smallest: float, options: Sequence[int] | None = None
) -> None:
    """Sets the Gaussian dimensions of some options, by default all, to their best values for given sums.

    Options without any steps keep theirs.
    """
    w, u = ridge(sums, precision, max(smallest, policy.min_log_scale))
    heads, size = policy.heads, policy.center.numel()
    for k in range(policy.num_options) if options is None else options:
        if sums.count[k] > 0:
            heads.weight[k, :size], heads.bias[k, :size] = w[k, :, :-1].to(heads.weight), w[k, :, -1].to(heads.bias)
            policy.log_scale.value[k] = u[k].to(heads.bias)
