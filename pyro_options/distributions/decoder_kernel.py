r"""Drawing relaxed paths step by step, and the way back, compiled for the CPU. Importing this imports numba.

A step feeds the path before it to a decoder, adds noise to its logits, and squashes them:

.. math:: x_0 = \mathrm{relu}(c_t + P\zeta_{t-1}), \quad x_l = \mathrm{relu}(W_l x_{l-1} + u_l), \quad
    y_t = V x_L + v, \quad \tilde\zeta_t = (\sigma, \mathrm{softmax})((y_t + \varepsilon_t) / \tau)

Shapes: ``context (N, T, H_0)``; ``noise``, ``path``, ``logits`` and ``soft`` ``(N, T, K + 1)``; ``hidden (N, T, ΣH)``
holds :math:`x_0, …, x_L` side by side. ``flat`` holds :math:`P^\top`, then :math:`W_l^\top, u_l` for each layer, then
:math:`V^\top, v`, one behind the other, or for the way back the same matrices untransposed and no biases.
"""

import math

import numba
import numpy as np

from pyro_options.compiled import PLAIN, add_product


@numba.njit(**PLAIN)
def _relax(noisy, temperature, soft):
    """The logistic function of the first entry and the softmax of the others, at a temperature."""
    best = -math.inf
    for k in range(1, len(noisy)):
        best = max(best, np.float64(noisy[k]))
    total = 0.0
    for k in range(1, len(noisy)):
        weight = math.exp((noisy[k] - best) / temperature)
        soft[k] = weight
        total += weight
    for k in range(1, len(noisy)):
        soft[k] /= total
    soft[0] = 1 / (1 + math.exp(-noisy[0] / temperature))


@numba.njit(**PLAIN)
def _harden(noisy, value):
    value[:] = 0.0
    value[0] = 1.0 if noisy[0] > 0 else 0.0
    value[1 + np.argmax(noisy[1:])] = 1.0


@numba.njit(**PLAIN)
def draw(first, last, context, noise, flat, sizes, temperature, flags, hidden, logits, soft, path):
    """Paths of episodes ``first`` to ``last - 1``. ``flags``: are b and h coupled, and are they discrete."""
    T, width = path.shape[1:]
    coupled, hard = flags[0], flags[1]
    noisy, value, previous = np.empty(width, flat.dtype), np.empty(width, flat.dtype), np.empty(width, flat.dtype)
    for n in range(first, last):
        previous[:] = 0.0
        for t in range(T):
            x, at = hidden[n, t, : sizes[0]], width * sizes[0]
            x[:] = context[n, t]
            add_product(previous, flat[:at].reshape(width, sizes[0]), x)
            for i in range(len(x)):
                x[i] = max(x[i], 0)
            begin = sizes[0]
            for layer in range(1, len(sizes)):
                rows, columns = sizes[layer - 1], sizes[layer]
                y = hidden[n, t, begin : begin + columns]
                weight = flat[at : at + rows * columns].reshape(rows, columns)
                at += rows * columns
                y[:] = flat[at : at + columns]
                at += columns
                add_product(x, weight, y)
                for i in range(columns):
                    y[i] = max(y[i], 0)
                x, begin = y, begin + columns
            head = flat[at : at + len(x) * width].reshape(len(x), width)
            logits[n, t] = flat[at + len(x) * width :]
            add_product(x, head, logits[n, t])
            for k in range(width):
                noisy[k] = logits[n, t, k] + noise[n, t, k]
            _relax(noisy, temperature[0], soft[n, t])
            value[:] = soft[n, t]
            if hard:
                _harden(noisy, value)
            if t == 0:
                value[0] = 1.0
            elif coupled:
                for k in range(1, width):
                    value[k] = previous[k] + value[0] * (value[k] - previous[k])
            previous[:] = value
            path[n, t] = value


@numba.njit(**PLAIN)
def draw_backward(
    first, last, grad_path, grad_logits, flat, sizes, temperature, flags, hidden, logits, noise, soft, path,
    grad_noisy, grad_hidden,
):  # fmt: skip
    """Gradients of logits ``grad_noisy (N, T, K + 1)`` and, before their relu, of layers ``grad_hidden (N, T, ΣH)``."""
    T, width = path.shape[1:]
    coupled, hard = flags[0], flags[1]
    dtype = flat.dtype
    down, fresh, noisy = np.empty(width, dtype), np.empty(width, dtype), np.empty(width, dtype)
    kept = np.empty(width, dtype)
    last_layer = len(sizes) - 1
    for n in range(first, last):
        down[:] = 0.0
        for t in range(T - 1, -1, -1):
            s = soft[n, t]
            fresh[:] = s
            if hard:
                for k in range(width):
                    noisy[k] = logits[n, t, k] + noise[n, t, k]
                _harden(noisy, fresh)
            for k in range(width):
                down[k] += grad_path[n, t, k]
                kept[k] = 0.0
            if t == 0:
                down[0] = 0.0
            elif coupled:
                for k in range(1, width):
                    down[0] += down[k] * (fresh[k] - path[n, t - 1, k])
                    kept[k] = down[k] * (1 - fresh[0])
                    down[k] *= fresh[0]
            mean = 0.0
            for k in range(1, width):
                mean += down[k] * s[k]
            out = grad_noisy[n, t]
            for k in range(1, width):
                out[k] = grad_logits[n, t, k] + s[k] * (down[k] - mean) / temperature[0]
            out[0] = grad_logits[n, t, 0] + down[0] * s[0] * (1 - s[0]) / temperature[0]
            above, at, end = out, len(flat), hidden.shape[2]
            for layer in range(last_layer, -1, -1):
                x, grad = hidden[n, t, end - sizes[layer] : end], grad_hidden[n, t, end - sizes[layer] : end]
                at -= len(above) * len(x)
                grad[:] = 0.0
                add_product(above, flat[at : at + len(above) * len(x)].reshape(len(above), len(x)), grad)
                for i in range(len(x)):
                    grad[i] = grad[i] if x[i] > 0 else 0.0
                above, end = grad, end - sizes[layer]
            down[:] = kept
            add_product(above, flat[:at].reshape(len(above), width), down)
