"""Triton twin of :mod:`pyro_options.kernels.lstm`: one launch where cuDNN needs several for each step."""

import triton
import triton.language as tl
from torch import Tensor

from .triton_math import Launch, lanes, sigmoid, tanh

_WARPS = 4


def accepts(*tensors: Tensor) -> bool:
    """Up to 64 hidden units, whose weights stay in registers; torch's own LSTM, by cuDNN, reads wider ones."""
    return tensors[1].shape[-1] <= 64


@triton.jit
def _weight(weight, gate, row, column, H, LANES: tl.constexpr):
    """The recurrent weight of a gate, ``(LANES, LANES)``, from ``(H, 4H)``."""
    inside = (row[:, None] < H) & (column[None, :] < H)
    return tl.load(weight + row[:, None] * 4 * H + gate * H + column[None, :], mask=inside, other=0.0)


@triton.jit
def _forward(gates, weight, lengths, cells, hidden, T, H, LANES: tl.constexpr):
    n = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, LANES)
    inside = j < H
    by_i, by_f = _weight(weight, 0, j, j, H, LANES), _weight(weight, 1, j, j, H, LANES)
    by_g, by_o = _weight(weight, 2, j, j, H, LANES), _weight(weight, 3, j, j, H, LANES)
    gates += n * T * 4 * H
    cells += n * T * H
    hidden += n * T * H
    end = tl.load(lengths + n).to(tl.int32)
    h = tl.load(gates + j, mask=inside, other=0.0) * 0
    c = h
    for t in range(end, T):
        tl.store(hidden + t * H + j, h, mask=inside)
    for read in range(end):
        t = end - 1 - read
        at = gates + t * 4 * H + j
        before = h[:, None]
        i = sigmoid(tl.load(at, mask=inside, other=0.0) + tl.sum(by_i * before, 0))
        f = sigmoid(tl.load(at + H, mask=inside, other=0.0) + tl.sum(by_f * before, 0))
        g = tanh(tl.load(at + 2 * H, mask=inside, other=0.0) + tl.sum(by_g * before, 0))
        o = sigmoid(tl.load(at + 3 * H, mask=inside, other=0.0) + tl.sum(by_o * before, 0))
        c = f * c + i * g
        h = tl.where(inside, o * tanh(c), 0.0)
        tl.store(at, i, mask=inside)
        tl.store(at + H, f, mask=inside)
        tl.store(at + 2 * H, g, mask=inside)
        tl.store(at + 3 * H, o, mask=inside)
        tl.store(cells + t * H + j, c, mask=inside)
        tl.store(hidden + t * H + j, h, mask=inside)


@triton.jit
def _transposed(weight, gate, row, column, H, LANES: tl.constexpr):
    """The recurrent weight of a gate, ``(LANES, LANES)``, from ``(4H, H)``."""
    inside = (row[:, None] < H) & (column[None, :] < H)
    return tl.load(weight + (gate * H + row[:, None]) * H + column[None, :], mask=inside, other=0.0)


@triton.jit
def _backward(grad_hidden, weight, lengths, squashed, cells, grad_gates, T, H, LANES: tl.constexpr):
    n = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, LANES)
    inside = j < H
    by_i, by_f = _transposed(weight, 0, j, j, H, LANES), _transposed(weight, 1, j, j, H, LANES)
    by_g, by_o = _transposed(weight, 2, j, j, H, LANES), _transposed(weight, 3, j, j, H, LANES)
    squashed += n * T * 4 * H
    grad_gates += n * T * 4 * H
    cells += n * T * H
    grad_hidden += n * T * H
    end = tl.load(lengths + n).to(tl.int32)
    by_hidden = tl.load(squashed + j, mask=inside, other=0.0) * 0
    by_cell = by_hidden
    nothing = by_hidden
    for t in range(end, T):
        out = grad_gates + t * 4 * H + j
        tl.store(out, nothing, mask=inside)
        tl.store(out + H, nothing, mask=inside)
        tl.store(out + 2 * H, nothing, mask=inside)
        tl.store(out + 3 * H, nothing, mask=inside)
    for t in range(end):
        at, out = squashed + t * 4 * H + j, grad_gates + t * 4 * H + j
        i, f = tl.load(at, mask=inside, other=0.0), tl.load(at + H, mask=inside, other=0.0)
        g, o = tl.load(at + 2 * H, mask=inside, other=0.0), tl.load(at + 3 * H, mask=inside, other=0.0)
        before = tl.load(cells + tl.minimum(t + 1, end - 1) * H + j, mask=inside, other=0.0)
        before = before * tl.where(t + 1 < end, 1.0, 0.0).to(before.dtype)
        high = tanh(tl.load(cells + t * H + j, mask=inside, other=0.0))
        by_hidden += tl.load(grad_hidden + t * H + j, mask=inside, other=0.0)
        by_cell += by_hidden * o * (1 - high * high)
        grad_i, grad_f = by_cell * g * i * (1 - i), by_cell * before * f * (1 - f)
        grad_g, grad_o = by_cell * i * (1 - g * g), by_hidden * high * o * (1 - o)
        tl.store(out, grad_i, mask=inside)
        tl.store(out + H, grad_f, mask=inside)
        tl.store(out + 2 * H, grad_g, mask=inside)
        tl.store(out + 3 * H, grad_o, mask=inside)
        by_cell = by_cell * f
        both = by_i * grad_i[:, None] + by_f * grad_f[:, None] + by_g * grad_g[:, None] + by_o * grad_o[:, None]
        by_hidden = tl.sum(both, 0)


def launch_forward(inputs, outputs, settings) -> Launch:
    """``gates``, overwritten by their activations, ``weight (H, 4H)`` and ``lengths`` to cells and hidden states."""
    N, T, H = outputs[0].shape
    return Launch(_forward, (N,), (*inputs, *outputs, T, H), {"LANES": lanes(H)}, _WARPS)


def forward(inputs, outputs, settings) -> None:
    """One launch for all episodes."""
    launch_forward(inputs, outputs, settings)()


def launch_backward(inputs, outputs, settings) -> Launch:
    """Gradients of the hidden states, ``weight (4H, H)`` and what :func:`forward` saved to those of the gates."""
    N, T, H = inputs[-1].shape
    return Launch(_backward, (N,), (*inputs, *outputs, T, H), {"LANES": lanes(H)}, _WARPS)


def backward(inputs, outputs, settings) -> None:
    """One launch for all episodes."""
    launch_backward(inputs, outputs, settings)()
