"""The marginal likelihood of actions under segments, by the kernel :mod:`~pyro_options.kernels.segment_marginal`."""

from typing import NamedTuple

import torch
from torch import Tensor

from pyro_options.kernels.registry import KERNELS, TrackedFunction

from .boundaries import PoissonBoundaries, poisson_lengths

KERNEL = KERNELS["segment_marginal"]


class SegmentGradients(NamedTuple):
    """The log marginal of each of N episodes, its gradients, and where segments start; empty if not requested."""

    value: Tensor  # (N,)
    weights: Tensor  # (N, K)
    emission: Tensor  # (N, T, K)
    starts: Tensor  # (N, T, K) probability that a segment of skill k starts at t


def run_kernel(
    log_weights: Tensor, boundaries: PoissonBoundaries, emission: Tensor, gradients: bool, starts: bool = False
) -> SegmentGradients | None:
    """Results of the kernel; ``None`` if it cannot run or the probability of an episode is too small for it.

    :param log_weights: ``(K,)``
    :param emission: ``(..., T, K)``; results have a single batch dimension
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
    """``log_weights (K,)`` and ``emission (..., T, K)`` to ``(...)``, with the gradients in ``results``."""

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
    """log p(a), ``(...)``, with boundaries and skills summed out; ``None`` if it must be computed in log space."""
    needed = torch.is_grad_enabled() and (log_weights.requires_grad or emission.requires_grad)
    results = run_kernel(log_weights, boundaries, emission, gradients=needed)
    if results is None:
        return None
    if needed:
        return CompiledSegmentMarginal.apply(log_weights, emission, results)
    return results.value.reshape(emission.shape[:-2])
