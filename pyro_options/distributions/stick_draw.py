"""Sticks drawn by the kernel :mod:`~pyro_options.kernels.stick_draw`, with their log-density, as autograd functions."""

from typing import NamedTuple

import torch
from torch import Tensor

from pyro_options.kernels.registry import KERNELS, TrackedFunction

KERNEL = KERNELS["stick_draw"]


class DrawnSticks(NamedTuple):
    """Stick logits, and what their log-density needs."""

    logits: Tensor
    log_density: Tensor  # without gradients
    slopes: tuple[Tensor, Tensor, Tensor]  # derivatives of the log-density by logits, a and b


class _Draw(TrackedFunction):
    """Exp(1) draws, a and b, all ``(S,)``, to logits, their log-density and its slopes; only logits have gradients."""

    @staticmethod
    def forward(ctx, exponential, a, b):
        results = [torch.empty_like(exponential) for _ in range(7)]
        KERNEL.run("draw", exponential.numel(), (exponential, a, b), results)
        logits, log_density, by_a, by_b, *slopes = results
        ctx.save_for_backward(by_a, by_b)
        ctx.mark_non_differentiable(log_density, *slopes)
        ctx.set_materialize_grads(False)
        return logits, log_density, *slopes

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad, *_):
        if grad is None:
            return None, None, None
        by_a, by_b = ctx.saved_tensors
        return None, grad * by_a, grad * by_b


class _Density(TrackedFunction):
    """The log-density that a draw has computed already, as a function of logits, a and b."""

    @staticmethod
    def forward(ctx, logits, a, b, log_density, *slopes):
        ctx.save_for_backward(*slopes)
        return log_density.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        needed = ctx.needs_input_grad
        return (
            *(grad * slope if need else None for slope, need in zip(ctx.saved_tensors, needed)),
            None,
            None,
            None,
            None,
        )


def draw_sticks(exponential: Tensor, a: Tensor, b: Tensor) -> DrawnSticks | None:
    """Sticks as a transform of Exp(1) draws; ``None`` if the kernel cannot run.

    :param a: of the shape of ``exponential``, as ``b``
    """
    if not KERNEL.take(exponential, a, b):
        return None
    logits, log_density, *slopes = (
        x.reshape(exponential.shape) for x in _Draw.apply(*map(torch.flatten, (exponential, a, b)))
    )
    return DrawnSticks(logits, log_density, tuple(slopes))


def drawn_log_density(drawn: DrawnSticks, a: Tensor, b: Tensor) -> Tensor:
    """The log-density of sticks that were drawn with these parameters, of the same shape."""
    return _Density.apply(drawn.logits, a, b, drawn.log_density, *drawn.slopes)
