"""An LSTM that reads episodes backwards, at the cost of one product with its inputs."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pyro_options.kernels.registry import KERNELS, TrackedFunction

_NARROW = 64  # numbers that cost less to copy than a second product
KERNEL = KERNELS["lstm"]


def reverse_episodes(steps: Tensor, mask: Tensor) -> Tensor:
    """Each episode backwards, its padding left at the end. Its own inverse.

    :param steps: ``(N, T, D)``
    :param mask: ``(N, T)``
    """
    T = mask.shape[-1]
    time = torch.arange(T, device=mask.device)
    lengths = mask.sum(-1, keepdim=True)
    index = torch.where(mask, lengths - 1 - time, time)
    return steps.gather(-2, index.unsqueeze(-1).expand(steps.shape))


def linear_of_parts(parts: Sequence[Tensor], weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer on inputs side by side, which wide ones are in thought only, to spare a copy."""
    if sum(part.shape[-1] for part in parts) <= _NARROW:
        return nn.functional.linear(torch.cat(tuple(parts), -1), weight, bias)
    weights = weight.split([part.shape[-1] for part in parts], 1)
    result = nn.functional.linear(parts[0], weights[0], bias)
    for part, columns in zip(parts[1:], weights[1:]):
        result = result + nn.functional.linear(part, columns)
    return result


class CompiledRecurrence(TrackedFunction):
    """``gates (N, T, 4H)``, ``weight (4H, H)`` and ``lengths (N,)`` to ``(N, T, H)``, zero in the padding.

    The gates are overwritten with what the way back needs, which spares the largest of the buffers: pass the result of
    a product, which nobody else looks at.
    """

    @staticmethod
    def forward(ctx, gates, weight, lengths):
        N, T, width = gates.shape
        cells, hidden = gates.new_empty((N, T, width // 4)), gates.new_empty((N, T, width // 4))
        transposed = weight.t().contiguous()
        KERNEL.run("forward", N, N * T, gates, transposed, lengths, cells, hidden)
        ctx.save_for_backward(weight, lengths, gates, cells, hidden)
        return hidden

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        weight, lengths, squashed, cells, hidden = ctx.saved_tensors
        N, T, _ = squashed.shape
        grad_gates = torch.empty_like(squashed)
        inputs = grad.contiguous(), weight.contiguous(), lengths, squashed, cells
        KERNEL.run("backward", N, N * T, *inputs, grad_gates)
        # The step after comes first here. All episodes in one row, so that nothing is copied; where one ends the step
        # after belongs to another, which is taken out again.
        grad_weight = grad_gates.flatten(0, 1)[:-1].t() @ hidden.flatten(0, 1)[1:]
        grad_weight -= grad_gates[:-1, -1].t() @ hidden[1:, 0]
        return grad_gates, grad_weight, None


def _torch_recurrence(gates: Tensor, weight: Tensor, mask: Tensor) -> Tensor:
    """The same with torch's LSTM on any device, its input weight the identity."""
    width, H = weight.shape
    start, nothing = gates.new_zeros((1, len(gates), H)), gates.new_zeros(width)
    weights = [torch.eye(width, dtype=gates.dtype, device=gates.device), weight, nothing, nothing]
    backwards = reverse_episodes(gates, mask)
    hidden, _, _ = torch.lstm(backwards, (start, start), weights, True, 1, 0.0, True, False, True)
    return reverse_episodes(hidden, mask) * mask.unsqueeze(-1)


def backward_recurrence(gates: Tensor, weight: Tensor, mask: Tensor) -> Tensor:
    """What :func:`backward_lstm` does once the products with the inputs are there.

    :param gates: ``(N, T, 4H)``
    :param weight: of the hidden state ``(4H, H)``
    :param mask: ``(N, T)``
    """
    if not KERNEL.take(gates, weight):
        return _torch_recurrence(gates, weight, mask)
    return CompiledRecurrence.apply(gates, weight, mask.sum(-1))


def backward_lstm(lstm: nn.LSTM, parts: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Hidden states ``(N, T, H)`` of a one-layer LSTM that has read steps ``T - 1, …, t``; zero in the padding.

    Products with the inputs come first, for all steps at once and in the order they have: neither the inputs nor their
    gradient, which nobody needs, are ever copied.

    :param parts: ``(N, T, D_i)``, side by side the inputs of the LSTM
    :param mask: ``(N, T)``
    """
    gates = linear_of_parts(parts, lstm.weight_ih_l0, lstm.bias_ih_l0 + lstm.bias_hh_l0)
    return backward_recurrence(gates, lstm.weight_hh_l0, mask)
