"""Log-space functions whose values and gradients stay finite where the direct formula overflows or underflows."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_SMALL = -15.0  # below this, the first two terms of the series are exact in float64
_LARGE = math.log(40.0)
_CEILING = 80.0  # exp(80) is still finite in float32


def log1mexp(x: Tensor) -> Tensor:
    """``log(1 - exp(x))`` for ``x < 0``."""
    near = x > -math.log(2.0)
    safe_near = torch.where(near, x, torch.full_like(x, -0.5))
    safe_far = torch.where(near, torch.full_like(x, -1.0), x)
    return torch.where(near, torch.log(-torch.expm1(safe_near)), torch.log1p(-torch.exp(safe_far)))


def log1mexpexp(x: Tensor) -> Tensor:
    """``log(1 - exp(-exp(x)))`` for any real ``x``."""
    series = x - 0.5 * torch.exp(x.clamp(max=_SMALL))
    return torch.where(x < _SMALL, series, log1mexp(-torch.exp(x.clamp(min=_SMALL, max=_CEILING))))


def log_neg_log1mexpexp(x: Tensor) -> Tensor:
    """``log(-log(1 - exp(-exp(x))))`` for any real ``x``."""
    direct = torch.log(-log1mexpexp(x.clamp(max=_LARGE)))
    return torch.where(x > _LARGE, -torch.exp(x.clamp(min=_LARGE, max=_CEILING)), direct)


def log_softplus(x: Tensor) -> Tensor:
    """``log(log(1 + exp(x)))`` for any real ``x``."""
    series = x - 0.5 * torch.exp(x.clamp(max=_SMALL))
    return torch.where(x < _SMALL, series, torch.log(torch.nn.functional.softplus(x.clamp(min=_SMALL))))


def safe_log(x: Tensor) -> Tensor:
    """``log(x)`` with zero replaced by the smallest normal number, so that value and gradient are finite."""
    return torch.log(x.clamp(min=torch.finfo(x.dtype).tiny))


def log_mix(shares: Tensor, logs: Tensor) -> Tensor:
    r""":math:`\log\sum_k w_k e^{x_k}` over the last axis, with :math:`w_k` clamped to the smallest normal number.

    :param shares: :math:`w_k \ge 0`, shape ``(..., K)``
    :param logs: :math:`x_k`, shape ``(..., K)``
    """
    return torch.logsumexp(safe_log(shares) + logs, -1)


def gumbel(like: Tensor, shape: Sequence[int]) -> Tensor:
    """Gumbel noise, always finite, with the dtype and device of ``like``."""
    limits = torch.finfo(like.dtype)
    uniform = torch.rand(tuple(shape), dtype=like.dtype, device=like.device)
    return -torch.log(-torch.log(uniform.clamp(min=limits.tiny, max=1 - limits.eps)))
