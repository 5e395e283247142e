r"""Numba kernel: the recurrence of an LSTM that reads episodes backwards in time, and its backward pass.

Shapes: ``gates (N, T, 4H)``, the contribution of inputs and biases to the gate pre-activations, in torch's order
:math:`i, f, g, o`; ``lengths (N,)``. Steps beyond the length of an episode are zero. Four episodes are read together,
so that a weight is read once for all of them, as long as each has steps left; then one by one. For the flat unsigned
indexing see :func:`~pyro_options.kernels.numba_math.add_product`.
"""

import numba
import numpy as np

from .numba_math import FOUR, LOOPS, ONE, PLAIN, THREE, TWO, ZERO, Index, add_product, four_products, tanh


@numba.njit(**PLAIN)
def _together(n, last, lengths):
    """How many of the episodes from n on are read together, and for how many steps."""
    if n + FOUR > last:
        return ONE, ZERO
    return FOUR, Index(min(min(lengths[n], lengths[n + ONE]), min(lengths[n + TWO], lengths[n + THREE])))


@numba.njit(**LOOPS)
def _squash(gates, i, recurrent, r, H):
    """Adds what the hidden state contributes; sigmoid of the gates i, f and o and tanh of g, in place."""
    half = gates.dtype.type(0.5)
    g, o = TWO * H, THREE * H
    for j in range(g):
        gates[i + j] = half + half * tanh(half * (gates[i + j] + recurrent[r + j]))
    for j in range(g, o):
        gates[i + j] = tanh(gates[i + j] + recurrent[r + j])
    for j in range(o, FOUR * H):
        gates[i + j] = half + half * tanh(half * (gates[i + j] + recurrent[r + j]))


@numba.njit(**LOOPS)
def _step(step, read, gates, recurrent, r, cells, hidden, H):
    """One step of one episode, from the contributions of the input in ``gates`` and of the hidden state."""
    now, after, i = step * H, (step + ONE) * H, step * FOUR * H
    f, g, o = i + H, i + TWO * H, i + THREE * H
    _squash(gates, i, recurrent, r, H)
    if read > ZERO:
        for j in range(H):
            cells[now + j] = gates[i + j] * gates[g + j] + gates[f + j] * cells[after + j]
    else:
        for j in range(H):
            cells[now + j] = gates[i + j] * gates[g + j]
    for j in range(H):
        hidden[now + j] = gates[o + j] * tanh(cells[now + j])


@numba.njit(**LOOPS)
def forward(first, last, gates, weight, lengths, cells, hidden):
    """Fills ``cells`` and ``hidden`` ``(N, T, H)``, activates ``gates`` in place; ``weight (H, 4H)`` is transposed."""
    T, H = Index(hidden.shape[1]), Index(hidden.shape[2])
    width, recurrent = FOUR * H, np.zeros(16 * hidden.shape[2], gates.dtype)
    gates, weight, cells, hidden = gates.reshape(-1), weight.reshape(-1), cells.reshape(-1), hidden.reshape(-1)
    n, last = Index(first), Index(last)
    while n < last:
        episodes, common = _together(n, last, lengths)
        for read in range(common):
            s0, s1 = n * T + Index(lengths[n]) - read, (n + ONE) * T + Index(lengths[n + ONE]) - read  # the step before
            s2, s3 = (n + TWO) * T + Index(lengths[n + TWO]) - read, (n + THREE) * T + Index(lengths[n + THREE]) - read
            if read > ZERO:
                four_products(hidden, (s0 * H, s1 * H, s2 * H, s3 * H), weight, H, width, recurrent)
            else:
                recurrent[:] = 0.0
            for e, s in enumerate((s0, s1, s2, s3)):
                _step(s - ONE, read, gates, recurrent, Index(e) * width, cells, hidden, H)
        for m in range(n, n + episodes):
            end = Index(lengths[m])
            for at in range((m * T + end) * H, (m + ONE) * T * H):
                hidden[at] = 0.0
            for read in range(common, end):
                step = m * T + end - ONE - read
                recurrent[: np.int64(width)] = 0.0
                if read > ZERO:
                    add_product(hidden, (step + ONE) * H, weight, ZERO, H, width, recurrent, ZERO)
                _step(step, read, gates, recurrent, ZERO, cells, hidden, H)
        n += episodes


@numba.njit(**LOOPS)
def _gate_gradients(step, more, gates, cells, grad_hidden, by_hidden, by_cell, tanh_cell, at, grad, H):
    """Gradients of the gate pre-activations of one step, from those of its hidden state and its cell.

    ``by_hidden`` and ``by_cell`` are those that the step before, which is read later, has left, from ``at`` on;
    ``more`` tells whether a step was read before this one.
    """
    one = gates.dtype.type(1)
    now, i = step * H, step * FOUR * H
    f, g, o, before = i + H, i + TWO * H, i + THREE * H, now + H
    for j in range(H):
        tanh_cell[j] = tanh(cells[now + j])
    for j in range(H):
        by_hidden[at + j] += grad_hidden[now + j]
    for j in range(H):
        by_cell[at + j] += by_hidden[at + j] * gates[o + j] * (one - tanh_cell[j] * tanh_cell[j])
    for j in range(H):
        grad[i + j] = by_cell[at + j] * gates[g + j] * gates[i + j] * (one - gates[i + j])
    if more:
        for j in range(H):
            grad[f + j] = by_cell[at + j] * cells[before + j] * gates[f + j] * (one - gates[f + j])
    else:
        for j in range(H):
            grad[f + j] = 0.0
    for j in range(H):
        grad[g + j] = by_cell[at + j] * gates[i + j] * (one - gates[g + j] * gates[g + j])
    for j in range(H):
        grad[o + j] = by_hidden[at + j] * tanh_cell[j] * gates[o + j] * (one - gates[o + j])
    for j in range(H):
        by_cell[at + j] *= gates[f + j]


@numba.njit(**LOOPS)
def backward(first, last, grad_hidden, weight, lengths, squashed, cells, grad_gates):
    """Fills ``grad_gates (N, T, 4H)``; ``weight (4H, H)``, ``squashed (N, T, 4H)`` are the activated gates."""
    T, H = Index(cells.shape[1]), Index(cells.shape[2])
    width, dtype = FOUR * H, grad_gates.dtype
    tanh_cell, by_hidden, by_cell = np.empty(H, dtype), np.empty(FOUR * H, dtype), np.empty(FOUR * H, dtype)
    weight, gates, cells = weight.reshape(-1), squashed.reshape(-1), cells.reshape(-1)
    grad_hidden, grad = grad_hidden.reshape(-1), grad_gates.reshape(-1)
    n, last = Index(first), Index(last)
    while n < last:
        episodes, common = _together(n, last, lengths)
        by_hidden[:] = 0.0
        by_cell[:] = 0.0
        for t in range(common):
            for e in range(FOUR):
                more = t + ONE < Index(lengths[n + e])
                _gate_gradients(
                    (n + e) * T + t, more, gates, cells, grad_hidden, by_hidden, by_cell, tanh_cell, e * H, grad, H
                )
            g0, g1 = (n * T + t) * width, ((n + ONE) * T + t) * width
            g2, g3 = ((n + TWO) * T + t) * width, ((n + THREE) * T + t) * width
            four_products(grad, (g0, g1, g2, g3), weight, width, H, by_hidden)
        for e in range(episodes):
            m, at = n + e, e * H
            end = Index(lengths[m])
            for i in range((m * T + end) * width, (m + ONE) * T * width):
                grad[i] = 0.0
            for t in range(common, end):
                step = m * T + t
                _gate_gradients(
                    step, t + ONE < end, gates, cells, grad_hidden, by_hidden, by_cell, tanh_cell, at, grad, H
                )
                for j in range(at, at + H):
                    by_hidden[j] = 0.0
                add_product(grad, step * width, weight, ZERO, width, H, by_hidden, at)
        n += episodes
