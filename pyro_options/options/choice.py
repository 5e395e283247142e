"""Log-probabilities of choices; see :mod:`~pyro_options.kernels.choice`."""

import torch
from torch import Tensor

from pyro_options.kernels.registry import Kernels, apply_tracked

KERNELS = Kernels("pyro_options.kernels.choice", thread_work=1_000)  # rows


class CompiledChoice(torch.autograd.Function):
    """``logits (M, K, A)`` and ``index (M,)`` to log-probabilities ``(M, K)``."""

    @staticmethod
    def forward(ctx, logits, index):
        M, K, A = logits.shape
        weights, above, total = logits.new_empty((M, K, A)), logits.new_empty((M, K)), logits.new_empty((M, K))
        KERNELS.run("choose", M, M, logits, index, weights, above, total)
        ctx.save_for_backward(index, weights, total)
        return above.sub_(total.log())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        index, weights, total = ctx.saved_tensors
        grad_logits, M = torch.empty_like(weights), len(weights)
        KERNELS.run("choose_backward", M, M, grad, index, weights, total, grad_logits)
        return grad_logits, None


def choice_log_prob(logits: Tensor, index: Tensor) -> Tensor:
    """The log-probability that each of K categorical distributions gives to a choice, ``(..., K)``.

    :param logits: ``(..., K, A)``
    :param index: ``(...)``
    """
    logits = logits.expand(index.shape + logits.shape[-2:])
    if KERNELS.take(logits):
        return apply_tracked(CompiledChoice, logits.flatten(0, -3), index.flatten()).unflatten(0, index.shape)
    chosen = index[..., None, None].expand(logits.shape[:-1] + (1,))
    return logits.gather(-1, chosen).squeeze(-1) - torch.logsumexp(logits, -1)
