"""The marginal likelihood of an episode cut into segments, by the compiled kernel where it can."""

from typing import NamedTuple

import torch
from torch import Tensor

from pyro_options.kernels.registry import KERNELS, TrackedFunction

from .boundaries import PoissonBoundaries, poisson_lengths

KERNEL = KERNELS["segment_marginal"]


class SegmentGradients(NamedTuple):
    """The log marginal of each of N episodes and its gradients; starts only if asked for."""

    value: Tensor  # (N,)
    weights: Tensor  # (N, K)
    emission: Tensor  # (N, T, K)
    starts: Tensor  # (N, T, K)


def run_kernel(
    log_weights: Tensor, boundaries: PoissonBoundaries, emission: Tensor, gradients: bool, starts: bool = False
) -> SegmentGradients | None:
    """What the kernel finds; ``None`` where it cannot run or an episode is too improbable for it.

    :param log_weights: ``(K,)``
    :param emission: ``(..., T, K)``; the batch is flat in the results
    """
    if not KERNEL.take(log_weights, emission):
        return None
    T, K = emission.shape[-2:]
    flat = emission.detach().reshape(-1, T, K)
    N = len(flat)
    chances = poisson_lengths(boundaries.rate, T, torch.empty((), dtype=torch.float64))
    lengths = boundaries.lengths.expand(emission.shape[:-2]).reshape(-1)
    results = SegmentGradients(
        flat.new_empty(N),
        flat.new_empty((N * gradients, K)),
        flat.new_empty((N * gradients, T, K)),
        flat.new_empty((N * starts, T, K)),
    )
    inputs = (log_weights, *(chance.exp() for chance in chances), flat, lengths, torch.empty(boundaries.num_segments))
    KERNEL.run("log_marginal", N, N * T, *(x.contiguous() for x in inputs), *results)
    return results if bool(results.value.isfinite().all()) else None


class CompiledSegmentMarginal(TrackedFunction):
    """``log_weights (K,)`` and ``emission (..., T, K)`` to ``(...)``, with gradients that the kernel has found."""

    @staticmethod
    def forward(ctx, log_weights, emission, results):
        ctx.save_for_backward(results.weights, results.emission)
        ctx.shape = emission.shape
        return results.value.reshape(emission.shape[:-2])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        weights, emission = ctx.saved_tensors
        flat = grad.reshape(-1, 1)
        return (weights * flat).sum(0), (emission * flat.unsqueeze(-1)).reshape(ctx.shape), None


def compiled_log_marginal(log_weights: Tensor, boundaries: PoissonBoundaries, emission: Tensor) -> Tensor | None:
    """``log p(a)`` of shape ``(...)`` with boundaries and skills summed out, or ``None`` where log space must do."""
    needed = torch.is_grad_enabled() and (log_weights.requires_grad or emission.requires_grad)
    results = run_kernel(log_weights, boundaries, emission, gradients=needed)
    if results is None:
        return None
    if needed:
        return CompiledSegmentMarginal.apply(log_weights, emission, results)
    return results.value.reshape(emission.shape[:-2])
