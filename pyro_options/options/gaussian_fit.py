"""Closed-form fits of the Gaussian dimensions of policies to steps that are weighted by option."""

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


def weighted_sums(inputs: Tensor, targets: Tensor, weights: Tensor) -> GaussianSums:
    """The sums over given steps.

    :param inputs: ``(n, P)``
    :param targets: ``(n, A)``
    :param weights: ``(n, K)``
    """
    parts = []
    for weight in weights.T:
        weighted = inputs * weight.unsqueeze(-1)
        parts.append((weighted.T @ inputs, weighted.T @ targets, weight @ targets.square(), weight.sum()))
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


def has_closed_form(policy: Any) -> bool:
    """Whether a policy has Gaussian dimensions, none of which saturates."""
    return isinstance(policy, GaussianHeads) and not policy.saturates and policy.center.numel() > 0


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
