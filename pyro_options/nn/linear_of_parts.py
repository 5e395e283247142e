"""A linear layer on several tensors side by side, without writing them next to each other where that costs more."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from pyro_options.kernels.registry import TrackedFunction

_NARROW = 64  # input width up to which a concatenation is cheaper than a second product


class _NarrowLinear(TrackedFunction):
    """A linear layer on the concatenation of ``parts (..., D_i)``, with gradients of those parts that need one.

    For many rows of few numbers the order of the products matters, and whether the bias is one of their columns:
    torch's own layer takes twice the time of this one.
    """

    @staticmethod
    def forward(ctx, weight, bias, *parts):
        inputs = _with_ones(parts)
        ctx.save_for_backward(inputs, weight, *parts)
        ctx.widths = [part.shape[-1] for part in parts]
        return inputs @ torch.cat([weight, bias.unsqueeze(-1)], 1).t()

    @staticmethod
    def backward(ctx, grad):
        inputs, weight, *saved = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of the gradient may follow
            inputs = _with_ones(saved)
        parts, needed = weight.split(ctx.widths, 1), ctx.needs_input_grad[2:]
        columns = torch.cat([weight[:, :0], *(part for part, wanted in zip(parts, needed) if wanted)], 1)
        by_column = (grad @ pad(columns, (0, -columns.shape[1] % 16)))[..., : columns.shape[1]]
        found = iter(by_column.split([width for width, wanted in zip(ctx.widths, needed) if wanted], -1))
        grads = [next(found) if wanted else None for wanted in needed]
        by_weight = (inputs.flatten(0, -2).t() @ grad.flatten(0, -2)).t()
        return by_weight[:, :-1], by_weight[:, -1], *grads


def _with_ones(parts: Sequence[Tensor]) -> Tensor:
    """The concatenation of parts ``(..., D_i)`` and of a column of ones."""
    return torch.cat([*parts, parts[0].new_ones(()).expand(*parts[0].shape[:-1], 1)], -1)


def linear_of_parts(parts: Sequence[Tensor], weight: Tensor, bias: Tensor) -> Tensor:
    """A linear layer on the concatenation of ``parts``, without materializing it if it is wide.

    The leading dimensions of the parts are broadcast: those of particles are not multiplied into the others.
    """
    same = all(part.shape[:-1] == parts[0].shape[:-1] for part in parts)
    if same and sum(part.shape[-1] for part in parts) <= _NARROW:
        if weight.is_cpu:
            return _NarrowLinear.apply(weight, bias, *parts)
        return nn.functional.linear(torch.cat(tuple(parts), -1), weight, bias)
    weights = weight.split([part.shape[-1] for part in parts], 1)
    result = nn.functional.linear(parts[0], weights[0], bias)
    for part, columns in zip(parts[1:], weights[1:]):
        result = result + nn.functional.linear(part, columns)
    return result
