"""The marginal likelihood of actions under segments, by the kernel :mod:`~pyro_options.kernels.segment_marginal`."""

from typing import NamedTuple

import torch
from torch import Tensor

from pyro_options.kernels.registry import KERNELS, TrackedFunction, keep_provenance

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

    :param log_weights: ``(N, K)``
    :param boundaries: of batch shape ``(N,)``
    :param emission: ``(N, T, K)``
    """
    if not KERNEL.take(log_weights, emission):
        return None
    N, T, K = emission.shape
    chances = poisson_lengths(boundaries.rate, T, torch.empty((), dtype=torch.float64, device=emission.device))
    results = SegmentGradients(
        emission.new_empty(N),
        emission.new_empty((N * gradients, K)),
        emission.new_empty((N * gradients, T, K)),
        emission.new_empty((N * starts, T, K)),
    )
    inputs = log_weights, *(chance.exp() for chance in chances), emission, boundaries.lengths
    KERNEL.run("log_marginal", N * T, inputs, results, [boundaries.num_segments])
    return results if bool(results.value.isfinite().all()) else None


class CompiledSegmentMarginal(TrackedFunction):
    """``log_weights (N, K)`` and ``emission (N, T, K)`` to ``(N,)``, with the gradients in ``results``."""

    @staticmethod
    def forward(ctx, log_weights, emission, results):
        ctx.save_for_backward(results.weights, results.emission)
        return results.value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        weights, emission = ctx.saved_tensors
        grad = grad.unsqueeze(-1)
        return weights * grad, emission * grad.unsqueeze(-1), None


def compiled_log_marginal(log_weights: Tensor, boundaries: PoissonBoundaries, emission: Tensor) -> Tensor | None:
    """log p(a), ``(N,)``, with boundaries and skills summed out; ``None`` if it must be computed in log space.

    Parameters are those of :func:`run_kernel`.
    """
    needed = torch.is_grad_enabled() and (log_weights.requires_grad or emission.requires_grad)
    results = run_kernel(log_weights, boundaries, emission, gradients=needed)
    if results is None:
        return None
    if needed:
        return CompiledSegmentMarginal.apply(log_weights, emission, results)
    return keep_provenance(results.value, log_weights, emission)
