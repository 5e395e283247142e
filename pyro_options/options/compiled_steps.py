"""Paths drawn from a chain on a model's evidence, compiled or in torch, with everything that their score needs."""

from typing import NamedTuple

import torch
from torch import Tensor

from pyro_options.kernels.registry import KERNELS, TrackedFunction

from .evidence import PathEvidence
from .path_steps import Transitions, coldness, look_ahead, steps_given, stepwise_log_prob, transitions_given, walk

KERNEL = KERNELS["path_steps"]


class DrawnPath(NamedTuple):
    """A path, the transitions from its options, and its :func:`stepwise_log_prob`."""

    path: Tensor  # (..., T, K + 1)
    transitions: Transitions
    log_prob: Tensor  # (...)


class CompiledSteps(TrackedFunction):
    """``log_weights (N, K)``, ``logits``, ``emission``, ``message (N, T, K)`` to the fields of :class:`DrawnPath`.

    Only the message has a gradient. ``noise`` is ``(N, T, K + 1)``, or ``(N, 0, 0)`` for marginals, ``cold`` the
    inverse temperature ``(1,)``.
    """

    @staticmethod
    def forward(ctx, message, log_weights, logits, emission, noise, cold, lookahead, discrete):
        N, T, K = message.shape
        path, log_prob = message.new_empty((N, T, K + 1)), message.new_empty(N)
        levels = message.new_empty((N, 3 if lookahead else 1, T, K))
        starts, stays, stops, *saved = (message.new_empty((N, T, K)) for _ in range(10))
        fresh = message.new_empty((N, T if noise.shape[1] else 0, K if noise.shape[1] else 0))
        results = path, log_prob, levels, starts, stays, stops, *saved, fresh
        inputs = log_weights, logits, emission, message, noise, cold
        KERNEL.run("draw", N * T, inputs, results, [discrete, lookahead])
        ctx.lookahead = lookahead
        ctx.save_for_backward(log_weights, cold, path, levels, stays, stops, *saved, fresh)
        return path, log_prob, starts, stays, stops

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *grads):
        log_weights, *saved = ctx.saved_tensors
        grad_message = torch.empty_like(saved[3])
        N, T = grad_message.shape[:2]
        KERNEL.run("draw_backward", N * T, (*grads, log_weights, *saved), [grad_message], [ctx.lookahead])
        return grad_message, None, None, None, None, None, None, None


def draw_steps(
    evidence: PathEvidence,
    message: Tensor,
    lookahead: int,
    noise: Tensor | None,
    temperature: float | Tensor = 1.0,
    discrete: bool = False,
) -> DrawnPath:
    """Draws a path, or computes the marginals of the chain if ``noise`` is ``None``.

    :param evidence: without gradients
    :param message: ``(..., T, K)``
    :param lookahead: see :func:`look_ahead`
    :param noise: logistic in column 0, Gumbel in the others, ``(..., T, K + 1)``
    """
    shape = message.shape
    if evidence.log_weights.dim() == message.dim() or not message.dim() > 2 or not KERNEL.take(*evidence, message):
        message = look_ahead(evidence, message, lookahead)
        steps = steps_given(evidence, message)
        path = walk(steps, noise, temperature, discrete)
        transitions = transitions_given(steps, path[..., 1:])
        return DrawnPath(path, transitions, stepwise_log_prob(steps, transitions, message, path[..., 1:]))
    flat = [x.expand(shape[:-2] + x.shape[x.dim() - d :]).flatten(0, -d - 1) for x, d in zip(evidence, (1, 2, 2))]
    still = message.new_empty((len(flat[0]), 0, 0)) if noise is None else noise.flatten(0, -3)
    path, log_prob, *transitions = CompiledSteps.apply(
        message.flatten(0, -3), *flat, still, coldness(temperature, message), lookahead, discrete
    )
    return DrawnPath(
        path.reshape(*shape[:-1], shape[-1] + 1),
        Transitions(*(part.reshape(shape) for part in transitions)),
        log_prob.reshape(shape[:-2]),
    )
