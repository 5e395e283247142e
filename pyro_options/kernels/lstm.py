r"""Numba kernel: the recurrence of an LSTM that reads episodes backwards in time, and its backward pass.

Shapes: ``gates (N, T, 4H)``, the contribution of inputs and biases to the gate pre-activations, in torch's order
:math:`i, f, g, o`; ``lengths (N,)``. Steps beyond the length of an episode are zero. For the flat unsigned indexing see
:func:`~pyro_options.kernels.numba_math.add_product`.
"""

import numba
import numpy as np

from .numba_math import FOUR, LOOPS, ONE, TWO, ZERO, Index, add_product, tanh


@numba.njit(**LOOPS)
def _squash(gates, i, H):
    """Sigmoid of the gates i, f and o and tanh of g, in place."""
    half = gates.dtype.type(0.5)
    g = i + TWO * H
    o = g + H
    for j in range(TWO * H):
        gates[i + j] = half + half * tanh(half * gates[i + j])
    for j in range(H):
        gates[g + j] = tanh(gates[g + j])
    for j in range(H):
        gates[o + j] = half + half * tanh(half * gates[o + j])


@numba.njit(**LOOPS)
def forward(first, last, gates, weight, lengths, cells, hidden):
    """Fills ``cells`` and ``hidden`` ``(N, T, H)``, activates ``gates`` in place; ``weight (H, 4H)`` is transposed."""
    T, H = Index(hidden.shape[1]), Index(hidden.shape[2])
    width = FOUR * H
    gates, weight, cells, hidden = gates.reshape(-1), weight.reshape(-1), cells.reshape(-1), hidden.reshape(-1)
    for n in range(Index(first), Index(last)):
        end = Index(lengths[n])
        for at in range((n * T + end) * H, (n + ONE) * T * H):
            hidden[at] = 0.0
        for read in range(end):
            step = n * T + end - ONE - read
            now, after, i = step * H, (step + ONE) * H, step * width
            f, g, o = i + H, i + TWO * H, i + (TWO + ONE) * H
            if read > ZERO:
                add_product(hidden, after, weight, ZERO, H, width, gates, i)
            _squash(gates, i, H)
            for j in range(H):
                cells[now + j] = gates[i + j] * gates[g + j]
            if read > ZERO:
                for j in range(H):
                    cells[now + j] += gates[f + j] * cells[after + j]
            for j in range(H):
                hidden[now + j] = gates[o + j] * tanh(cells[now + j])


@numba.njit(**LOOPS)
def _gate_gradients(gates, i, before, tanh_cell, by_hidden, by_cell, grad, H):
    """Gradients of the gate pre-activations from those of the hidden state and the cell."""
    one = gates.dtype.type(1)
    f, g, o = i + H, i + TWO * H, i + (TWO + ONE) * H
    for j in range(H):
        grad[i + j] = by_cell[j] * gates[g + j] * gates[i + j] * (one - gates[i + j])
    for j in range(H):
        grad[f + j] = by_cell[j] * before[j] * gates[f + j] * (one - gates[f + j])
    for j in range(H):
        grad[g + j] = by_cell[j] * gates[i + j] * (one - gates[g + j] * gates[g + j])
    for j in range(H):
        grad[o + j] = by_hidden[j] * tanh_cell[j] * gates[o + j] * (one - gates[o + j])


@numba.njit(**LOOPS)
def backward(first, last, grad_hidden, weight, lengths, squashed, cells, grad_gates):
    """Fills ``grad_gates (N, T, 4H)``; ``weight (4H, H)``, ``squashed (N, T, 4H)`` are the activated gates."""
    T, H = Index(cells.shape[1]), Index(cells.shape[2])
    width, one, dtype = FOUR * H, grad_gates.dtype.type(1), grad_gates.dtype
    by_hidden, by_cell, before, tanh_cell = (
        np.empty(H, dtype),
        np.empty(H, dtype),
        np.empty(H, dtype),
        np.empty(H, dtype),
    )
    weight, gates, cells = weight.reshape(-1), squashed.reshape(-1), cells.reshape(-1)
    grad_hidden, grad = grad_hidden.reshape(-1), grad_gates.reshape(-1)
    for n in range(Index(first), Index(last)):
        end = Index(lengths[n])
        for at in range((n * T + end) * width, (n + ONE) * T * width):
            grad[at] = 0.0
        by_hidden[:] = 0.0
        by_cell[:] = 0.0
        for t in range(end):
            now, i = (n * T + t) * H, (n * T + t) * width
            f, o = i + H, i + (TWO + ONE) * H
            for j in range(H):
                by_hidden[j] += grad_hidden[now + j]
            for j in range(H):
                tanh_cell[j] = tanh(cells[now + j])
            for j in range(H):
                by_cell[j] += by_hidden[j] * gates[o + j] * (one - tanh_cell[j] * tanh_cell[j])
            if t + ONE < end:
                for j in range(H):
                    before[j] = cells[now + H + j]
            else:
                before[:] = 0.0
            _gate_gradients(gates, i, before, tanh_cell, by_hidden, by_cell, grad, H)
            for j in range(H):
                by_cell[j] *= gates[f + j]
            by_hidden[:] = 0.0
            add_product(grad, i, weight, ZERO, width, H, by_hidden, ZERO)
