r"""Numba kernel: sampling of relaxed paths from an autoregressive decoder, and its backward pass.

A step decodes the previous step of the path, adds noise to the logits, and applies sigmoid (termination) and softmax
(option) at temperature :math:`\tau`:

.. math:: x_0 = \mathrm{relu}(c_t + P\zeta_{t-1}), \quad x_l = \mathrm{relu}(W_l x_{l-1} + u_l), \quad
    y_t = V x_L + v, \quad \tilde\zeta_t = (\sigma, \mathrm{softmax})((y_t + \varepsilon_t) / \tau)

Shapes: ``context (N, T, H_0)``; ``noise``, ``path``, ``logits`` and ``soft`` ``(N, T, K + 1)``; ``hidden (N, T, ΣH)``
holds :math:`x_0, \ldots, x_L`, concatenated. ``flat`` holds :math:`P^\top`, then :math:`W_l^\top, u_l` for each layer,
then :math:`V, v`, concatenated; for the backward pass :math:`P^\top, W_l, V` without biases. For the flat unsigned
indexing see :func:`~pyro_options.kernels.numba_math.add_product`.
"""

import numba
import numpy as np

from .numba_math import LOOPS, ONE, PLAIN, ZERO, Index, add_dots, add_product, exp_of


@numba.njit(**PLAIN)
def _relax(noisy, coldness, soft, at):
    """Sigmoid of the first entry and softmax of the others, at the inverse temperature ``coldness``."""
    one = coldness.dtype.type(1)
    width = Index(len(noisy))
    best = noisy[1]
    for k in range(ONE, width):
        best = noisy[k] if noisy[k] > best else best
    total = noisy.dtype.type(0)
    for k in range(ONE, width):
        weight = exp_of((noisy[k] - best) * coldness[0])
        soft[at + k] = weight
        total += weight
    for k in range(ONE, width):
        soft[at + k] /= total
    small = exp_of(-abs(noisy[0]) * coldness[0])
    soft[at] = (one if noisy[0] > 0 else small) / (one + small)


@numba.njit(**PLAIN)
def _harden(noisy, value):
    value[:] = 0.0
    value[0] = 1.0 if noisy[0] > 0 else 0.0
    value[1 + np.argmax(noisy[1:])] = 1.0


@numba.njit(**LOOPS)
def _rectify(x, at, size):
    for i in range(size):
        x[at + i] = max(x[at + i], x.dtype.type(0))


@numba.njit(**LOOPS)
def _rectified(x, grad, at, size):
    for i in range(size):
        grad[at + i] = grad[at + i] if x[at + i] > 0 else grad.dtype.type(0)


@numba.njit(**LOOPS)
def draw(first, last, context, noise, flat, coldness, settings, hidden, logits, soft, path):
    """Paths of episodes ``first`` to ``last - 1``; ``settings``: b and h coupled, discrete, b_0 drawn, sizes."""
    T, width, depth = Index(path.shape[1]), Index(path.shape[2]), Index(hidden.shape[2])
    coupled, hard, first_drawn, sizes = settings[0], settings[1], settings[2], settings[3:]
    noisy, value = np.empty(width, flat.dtype), np.empty(width, flat.dtype)
    context, noise, hidden = context.reshape(-1), noise.reshape(-1), hidden.reshape(-1)
    logits, soft, path = logits.reshape(-1), soft.reshape(-1), path.reshape(-1)
    for step in range(Index(first) * T, Index(last) * T):
        begins = step % T == ZERO
        x, size, now = step * depth, Index(sizes[0]), step * width
        for i in range(size):
            hidden[x + i] = context[step * size + i]
        if not begins:
            add_product(path, now - width, flat, ZERO, width, size, hidden, x)
        _rectify(hidden, x, size)
        at = width * size
        for layer in range(1, len(sizes)):
            y, columns = x + size, Index(sizes[layer])
            for i in range(columns):
                hidden[y + i] = flat[at + size * columns + i]
            add_product(hidden, x, flat, at, size, columns, hidden, y)
            _rectify(hidden, y, columns)
            at += (size + ONE) * columns
            x, size = y, columns
        for k in range(width):
            logits[now + k] = flat[at + width * size + k]
        add_dots(hidden, x, flat, at, width, size, logits, now)
        for k in range(width):
            noisy[k] = logits[now + k] + noise[now + k]
        _relax(noisy, coldness, soft, now)
        for k in range(width):
            value[k] = soft[now + k]
        if hard:
            _harden(noisy, value)
        if begins:
            value[0] = value[0] if first_drawn else 1.0
        elif coupled:
            for k in range(ONE, width):
                before = path[now - width + k]
                value[k] = before + value[0] * (value[k] - before)
        for k in range(width):
            path[now + k] = value[k]


@numba.njit(**LOOPS)
def draw_backward(
    first, last, grad_path, grad_logits, flat, coldness, hidden, logits, noise, soft, path, settings,
    grad_noisy, grad_hidden,
):  # fmt: skip
    """Gradients of logits, ``grad_noisy (N, T, K + 1)``, and of ReLU pre-activations, ``grad_hidden (N, T, ΣH)``."""
    T, width, depth = Index(path.shape[1]), Index(path.shape[2]), Index(hidden.shape[2])
    coupled, hard, first_drawn, sizes, dtype = settings[0], settings[1], settings[2], settings[3:], flat.dtype
    down, fresh, noisy, kept = np.empty((4, width), dtype)
    logits, noise, soft, path = logits.reshape(-1), noise.reshape(-1), soft.reshape(-1), path.reshape(-1)
    grad_path, grad_logits, grad_noisy = grad_path.reshape(-1), grad_logits.reshape(-1), grad_noisy.reshape(-1)
    hidden, grad_hidden = hidden.reshape(-1), grad_hidden.reshape(-1)
    for back in range((Index(last) - Index(first)) * T):
        step = Index(last) * T - ONE - back
        now = step * width
        if step % T == T - ONE:
            down[:] = 0.0
        for k in range(width):
            fresh[k] = soft[now + k]
        if hard:
            for k in range(width):
                noisy[k] = logits[now + k] + noise[now + k]
            _harden(noisy, fresh)
        for k in range(width):
            down[k] += grad_path[now + k]
            kept[k] = 0.0
        if step % T == ZERO:
            down[0] = down[0] if first_drawn else 0.0
        elif coupled:
            for k in range(ONE, width):
                down[0] += down[k] * (fresh[k] - path[now - width + k])
                kept[k] = down[k] * (1 - fresh[0])
                down[k] *= fresh[0]
        mean = dtype.type(0)
        for k in range(ONE, width):
            mean += down[k] * soft[now + k]
        for k in range(ONE, width):
            grad_noisy[now + k] = grad_logits[now + k] + soft[now + k] * (down[k] - mean) * coldness[0]
        grad_noisy[now] = grad_logits[now] + down[0] * soft[now] * (1 - soft[now]) * coldness[0]
        for k in range(width):
            down[k] = kept[k]
        size = Index(sizes[-1])
        x, at = (step + ONE) * depth - size, Index(len(flat)) - width * size
        for i in range(size):
            grad_hidden[x + i] = 0.0
        add_product(grad_noisy, now, flat, at, width, size, grad_hidden, x)
        _rectified(hidden, grad_hidden, x, size)
        for layer in range(len(sizes) - 1, 0, -1):
            above, rows, size = x, size, Index(sizes[layer - 1])
            x, at = x - size, at - rows * size
            for i in range(size):
                grad_hidden[x + i] = 0.0
            add_product(grad_hidden, above, flat, at, rows, size, grad_hidden, x)
            _rectified(hidden, grad_hidden, x, size)
        add_dots(grad_hidden, x, flat, ZERO, width, size, down, ZERO)
