"""An LSTM that reads episodes backwards in time, with a single product for the inputs of all steps."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pyro_options.kernels.registry import KERNELS, TrackedFunction

from .linear_of_parts import linear_of_parts

KERNEL = KERNELS["lstm"]


def reverse_episodes(steps: Tensor, mask: Tensor) -> Tensor:
    """Reverses each episode in time, with its padding still at the end. Its own inverse.

    :param steps: ``(N, T, D)``
    :param mask: ``(N, T)``
    """
    T = mask.shape[-1]
    time = torch.arange(T, device=mask.device)
    lengths = mask.sum(-1, keepdim=True)
    index = torch.where(mask, lengths - 1 - time, time)
    return steps.gather(-2, index.unsqueeze(-1).expand(steps.shape))


class CompiledRecurrence(TrackedFunction):
    """``gates (N, T, 4H)``, ``weight (4H, H)``, ``lengths (N,)`` to hidden states ``(N, T, H)``, zero in the padding.

    To save the largest buffer, ``gates`` is overwritten with the activations that the backward pass needs: pass a
    temporary tensor that is not used elsewhere.
    """

    @staticmethod
    def forward(ctx, gates, weight, lengths):
        gates = gates.contiguous()  # a view otherwise, of which the kernel would overwrite a copy
        N, T, width = gates.shape
        cells, hidden = gates.new_empty((N, T, width // 4)), gates.new_empty((N, T, width // 4))
        KERNEL.run("forward", N * T, (gates, weight.t(), lengths), (cells, hidden))
        ctx.save_for_backward(weight, lengths, gates, cells, hidden)
        return hidden

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        weight, lengths, squashed, cells, hidden = ctx.saved_tensors
        N, T, _ = squashed.shape
        grad_gates = torch.empty_like(squashed)
        KERNEL.run("backward", N * T, (grad, weight, lengths, squashed, cells), [grad_gates])
        # The recurrence runs backwards, so step t depends on the hidden state of t + 1. Flattening the episodes avoids
        # a copy but pairs the last step of each with the first of the next; those terms are subtracted again.
        grad_weight = hidden.flatten(0, 1)[1:].t() @ grad_gates.flatten(0, 1)[:-1]
        grad_weight -= hidden[1:, 0].t() @ grad_gates[:-1, -1]
        return grad_gates, grad_weight.t(), None


def _torch_recurrence(gates: Tensor, weight: Tensor, mask: Tensor) -> Tensor:
    """The same with torch's LSTM, on any device; the gates are its inputs, with the identity as input weight."""
    width, H = weight.shape
    start, nothing = gates.new_zeros((1, len(gates), H)), gates.new_zeros(width)
    weights = [torch.eye(width, dtype=gates.dtype, device=gates.device), weight, nothing, nothing]
    backwards = reverse_episodes(gates, mask)
    hidden, _, _ = torch.lstm(backwards, (start, start), weights, True, 1, 0.0, True, False, True)
    return reverse_episodes(hidden, mask) * mask.unsqueeze(-1)


def backward_recurrence(gates: Tensor, weight: Tensor, mask: Tensor) -> Tensor:
    """The recurrent part of :func:`backward_lstm`: hidden states ``(..., N, T, H)``.

    :param gates: contribution of inputs and biases ``(..., N, T, 4H)``; may be overwritten
    :param weight: of the hidden state ``(4H, H)``
    :param mask: ``(N, T)``
    """
    if gates.dim() > 3:
        flat = mask.expand(gates.shape[:-1]).flatten(0, -2)
        return backward_recurrence(gates.flatten(0, -3), weight, flat).unflatten(0, gates.shape[:-2])
    if not KERNEL.take(gates, weight):
        return _torch_recurrence(gates, weight, mask)
    return CompiledRecurrence.apply(gates, weight, mask.sum(-1))


def backward_lstm(lstm: nn.LSTM, parts: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Hidden states ``(N, T, H)`` of a one-layer LSTM that has read steps ``T - 1, …, t``; zero in the padding.

    The inputs of all steps are multiplied at once and in their original order, so wide inputs are never copied or
    reversed.

    :param parts: ``(N, T, D_i)``, whose concatenation is the input of the LSTM
    :param mask: ``(N, T)``
    """
    gates = linear_of_parts(parts, lstm.weight_ih_l0, lstm.bias_ih_l0 + lstm.bias_hh_l0)
    return backward_recurrence(gates, lstm.weight_hh_l0, mask)
