"""Paths sampled from a decoder by the kernel :mod:`~pyro_options.kernels.path_draw`, as an autograd function."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pyro_options.kernels.registry import KERNELS, TrackedFunction

from .path_steps import coldness

KERNEL = KERNELS["path_draw"]


def can_draw(decoder, context: Tensor) -> bool:
    """Whether the kernel can run: the decoder exposes its layers, and :meth:`Kernels.take` accepts the tensors."""
    layers = decoder.layers() if hasattr(decoder, "layers") else None
    return layers is not None and KERNEL.take(context, *layers)


class CompiledDraw(TrackedFunction):
    """``context (N, T, H_0)`` and ``noise (N, T, K + 1)`` to paths and logits, both ``(N, T, K + 1)``.

    ``layers`` are the weight on the previous step of the path ``(H_0, K + 1)``, weight and bias of each hidden layer,
    and weight and bias of the heads ``(K + 1, H_L)``, ``(K + 1,)``.
    """

    @staticmethod
    def forward(ctx, context, noise, cold, coupled, discrete, infer_first, *layers):
        weights = (layers[0], *layers[1::2])
        pieces = [layers[0].t().reshape(-1)]
        for weight, bias in zip(layers[1:-2:2], layers[2:-2:2]):
            pieces += [weight.t().reshape(-1), bias]
        pieces += [layers[-2].reshape(-1), layers[-1]]
        sizes = [weight.shape[0] for weight in weights[:-1]]
        (N, T), width = context.shape[:2], layers[0].shape[1]
        ctx.settings = [coupled, discrete, infer_first, *sizes]
        hidden = context.new_empty((N, T, sum(sizes)))
        logits, soft, path = (context.new_empty((N, T, width)) for _ in range(3))
        inputs = context, noise, torch.cat(pieces), cold
        KERNEL.run("draw", N * T, inputs, (hidden, logits, soft, path), ctx.settings)
        ctx.save_for_backward(noise, hidden, logits, soft, path, cold, *weights)
        return path, logits

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_path, grad_logits):
        noise, hidden, logits, soft, path, cold, *weights = ctx.saved_tensors
        (N, T), sizes = path.shape[:2], ctx.settings[3:]
        grad_noisy, grad_hidden = torch.empty_like(path), torch.empty_like(hidden)
        flat = torch.cat([weights[0].t().reshape(-1), *(weight.reshape(-1) for weight in weights[1:])])
        inputs = grad_path, grad_logits, flat, cold, hidden, logits, noise, soft, path
        KERNEL.run("draw_backward", N * T, inputs, (grad_noisy, grad_hidden), ctx.settings)
        before = torch.nn.functional.pad(path[:, :-1], (0, 0, 1, 0))
        below = [x.flatten(0, 1) for x in (before, *hidden.split(sizes, -1))]
        above = [x.flatten(0, 1) for x in (*grad_hidden.split(sizes, -1), grad_noisy)]
        grads = [above[0].t() @ below[0]]
        for x, grad in zip(below[1:], above[1:]):
            grads += [grad.t() @ x, grad.sum(0)]
        return grad_hidden[..., : sizes[0]], None, None, None, None, None, *grads


def draw(
    decoder,
    context: Tensor,
    noise: Tensor,
    temperature: float | Tensor,
    coupled: bool,
    discrete: bool,
    infer_first: bool,
) -> tuple[Tensor, Tensor]:
    """Paths and their logits, both ``(..., T, K + 1)``.

    :param context: ``(..., T, H_0)``
    :param noise: logistic in column 0, Gumbel in the others, ``(..., T, K + 1)``
    :param coupled: whether an option that does not terminate continues
    :param discrete: draw discrete paths, with the gradient of the relaxed ones
    :param infer_first: draw b_0 too, instead of fixing it to 1
    """
    layers: Sequence[Tensor] = decoder.layers()
    how = coldness(temperature, context), coupled, discrete, infer_first
    path, logits = CompiledDraw.apply(context.flatten(0, -3), noise.flatten(0, -3), *how, *layers)
    return path.reshape(noise.shape), logits.reshape(noise.shape)
