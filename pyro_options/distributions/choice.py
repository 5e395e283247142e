"""Log-probabilities of choices; see :mod:`~pyro_options.distributions.choice_kernel`."""

import torch
from torch import Tensor

from pyro_options.threads import compilable, kernels, share

_THREAD_WORK = 1_000  # fewer rows than this are done before a second thread has started


def _kernels():
    return kernels("pyro_options.distributions.choice_kernel")


class CompiledChoice(torch.autograd.Function):
    """``logits (M, K, A)`` and ``index (M,)`` to log-probabilities ``(M, K)``."""

    @staticmethod
    def forward(ctx, logits, index):
        M, K, A = logits.shape
        weights, above, total = logits.new_empty((M, K, A)), logits.new_empty((M, K)), logits.new_empty((M, K))
        share(_kernels().choose, M, M // _THREAD_WORK, logits, index, weights, above, total)
        ctx.save_for_backward(index, weights, total)
        return above.sub_(total.log())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        index, weights, total = ctx.saved_tensors
        grad_logits, M = torch.empty_like(weights), len(weights)
        share(_kernels().choose_backward, M, M // _THREAD_WORK, grad, index, weights, total, grad_logits)
        return grad_logits, None


def choice_log_prob(logits: Tensor, index: Tensor) -> Tensor:
    """The log-probability that each of K categorical distributions gives to a choice, ``(..., K)``.

    :param logits: ``(..., K, A)``
    :param index: ``(...)``
    """
    logits = logits.expand(index.shape + logits.shape[-2:])
    if compilable(logits) and _kernels() is not None:
        return CompiledChoice.apply(logits.flatten(0, -3), index.flatten()).unflatten(0, index.shape)
    chosen = index[..., None, None].expand(logits.shape[:-1] + (1,))
    return logits.gather(-1, chosen).squeeze(-1) - torch.logsumexp(logits, -1)
