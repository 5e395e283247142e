r"""The recurrent part of an LSTM that reads episodes backwards, compiled for the CPU. Importing this imports numba.

Shapes: ``gates (N, T, 4H)``, what the inputs and biases add to the gates, in torch's order :math:`i, f, g, o`;
``lengths (N,)``. Steps beyond the length of an episode get zeros.
"""

import numba
import numpy as np

from pyro_options.compiled import PLAIN, add_product, exp, exp32


@numba.njit(**PLAIN)
def _squash(x, small, work, scratch, first, last):
    """tanh of ``x[first:last]`` and the logistic function of the rest, in place."""
    for i in range(len(x)):
        work[i] = -abs(x[i])
    for i in range(first, last):
        work[i] += work[i]
    if x.itemsize == 4:
        exp32(work, scratch, small)
    else:
        exp(work, scratch, small)
    one = small.dtype.type(1)  # an integer would turn single precision into double
    for i in range(len(x)):
        large = one / (one + small[i])
        work[i] = large if x[i] > 0 else small[i] * large
    for i in range(first, last):
        tanh = (one - small[i]) / (one + small[i])
        work[i] = tanh if x[i] > 0 else -tanh
    for i in range(len(x)):
        x[i] = work[i]


@numba.njit(**PLAIN)
def forward(first, last, gates, weight, lengths, cells, hidden):
    """Squashes the gates, fills ``cells`` and ``hidden`` ``(N, T, H)``; ``weight (H, 4H)`` is the transpose."""
    H = hidden.shape[2]
    dtype = gates.dtype
    small, work, scratch = np.empty(4 * H, dtype), np.empty(4 * H, dtype), np.empty(4 * H, dtype)
    tanh_cell = np.empty(H, dtype)
    for n in range(first, last):
        end = lengths[n]
        hidden[n, end:] = 0.0
        for t in range(end - 1, -1, -1):
            s = gates[n, t]
            if t + 1 < end:
                add_product(hidden[n, t + 1], weight, s)
            _squash(s, small, work, scratch, 2 * H, 3 * H)
            for j in range(H):
                cell = s[j] * s[2 * H + j]
                if t + 1 < end:
                    cell += s[H + j] * cells[n, t + 1, j]
                cells[n, t, j] = cell
                tanh_cell[j] = cell
            _squash(tanh_cell, small[:H], work[:H], scratch[:H], 0, H)
            for j in range(H):
                hidden[n, t, j] = s[3 * H + j] * tanh_cell[j]


@numba.njit(**PLAIN)
def backward(first, last, grad_hidden, weight, lengths, squashed, cells, grad_gates):
    """Fills ``grad_gates (N, T, 4H)``; ``weight (4H, H)``."""
    H = grad_hidden.shape[2]
    dtype = grad_gates.dtype
    small, work, scratch = np.empty(H, dtype), np.empty(H, dtype), np.empty(H, dtype)
    tanh_cell, from_hidden, from_cell = np.empty(H, dtype), np.empty(H, dtype), np.empty(H, dtype)
    for n in range(first, last):
        end = lengths[n]
        grad_gates[n, end:] = 0.0
        from_hidden[:] = 0.0
        from_cell[:] = 0.0
        for t in range(end):
            s, grad = squashed[n, t], grad_gates[n, t]
            tanh_cell[:] = cells[n, t]
            _squash(tanh_cell, small, work, scratch, 0, H)
            for j in range(H):
                i, f, g, o = s[j], s[H + j], s[2 * H + j], s[3 * H + j]
                by_hidden = grad_hidden[n, t, j] + from_hidden[j]
                by_cell = from_cell[j] + by_hidden * o * (1 - tanh_cell[j] * tanh_cell[j])
                before = cells[n, t + 1, j] if t + 1 < end else 0.0
                grad[j] = by_cell * g * i * (1 - i)
                grad[H + j] = by_cell * before * f * (1 - f)
                grad[2 * H + j] = by_cell * i * (1 - g * g)
                grad[3 * H + j] = by_hidden * tanh_cell[j] * o * (1 - o)
                from_cell[j] = by_cell * f
            from_hidden[:] = 0.0
            add_product(grad, weight, from_hidden)
