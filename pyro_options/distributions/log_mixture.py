"""Logarithms of mixtures; see :mod:`~pyro_options.kernels.log_mixture`."""

import torch
from torch import Tensor

from pyro_options.kernels.registry import Kernels, apply_tracked

from .log_space import safe_log

KERNELS = Kernels("pyro_options.kernels.log_mixture", thread_work=2_000)  # rows


class CompiledMixing(torch.autograd.Function):
    """``shares`` and ``logs`` ``(M, K)`` to ``(M,)``."""

    @staticmethod
    def forward(ctx, shares, logs):
        M = len(shares)
        tiny = shares.new_tensor([torch.finfo(shares.dtype).tiny])
        best, total, ratios = shares.new_empty(M), shares.new_empty(M), torch.empty_like(logs)
        KERNELS.run("mix", M, M, shares, logs, tiny, best, total, ratios)
        ctx.save_for_backward(shares, tiny, ratios)
        return best.add_(total.log_())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        shares, tiny, ratios = ctx.saved_tensors
        M, grads = len(shares), (torch.empty_like(ratios), torch.empty_like(ratios))
        KERNELS.run("mix_backward", M, M, grad, shares, tiny, ratios, *grads)
        return grads


def log_mix(shares: Tensor, logs: Tensor) -> Tensor:
    r""":math:`\log\sum_k w_k e^{x_k}` over the last axis; no share is less than the smallest normal number.

    :param shares: :math:`w_k \ge 0`, shape ``(..., K)``
    :param logs: :math:`x_k`, shape ``(..., K)``
    """
    if not KERNELS.take(shares, logs):
        return torch.logsumexp(safe_log(shares) + logs, -1)
    shares, logs = torch.broadcast_tensors(shares, logs)
    rows = shares.reshape(-1, shares.shape[-1]), logs.reshape(-1, logs.shape[-1])
    return apply_tracked(CompiledMixing, *rows).reshape(shares.shape[:-1])
