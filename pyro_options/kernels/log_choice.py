r"""Numba kernel: the log-probability that each option gives to the action that was taken, and its gradient.

.. math:: \log\mathrm{softmax}(l_{rk})_{a_r}

Shapes: ``logits (R, K, A)``, ``chosen (R,)``. For the flat unsigned indexing see
:func:`~pyro_options.kernels.numba_math.add_product`.
"""

import numba
import numpy as np

from .numba_math import LOOPS, PLAIN, ZERO, Index, exp_of, log_of

_BLOCK = Index(128)  # rows whose numbers stay in the first-level cache


@numba.njit(**LOOPS)
def _below_largest(logits, start, count, A, out):
    """The logits of each option minus the largest of them."""
    for k in range(count):
        at = start + k * A
        largest = logits[at]
        for a in range(A):
            largest = max(largest, logits[at + a])
        for a in range(A):
            out[k * A + a] = logits[at + a] - largest


@numba.njit(**LOOPS)
def forward(first, last, logits, chosen, log_probs, probs):
    """Fills ``log_probs (R, K)`` and, if it has rows, for the gradient, ``probs (R, K, A)``."""
    K, A = Index(logits.shape[1]), Index(logits.shape[2])
    logits, log_probs, probs = logits.reshape(-1), log_probs.reshape(-1), probs.reshape(-1)
    totals, below = np.empty(_BLOCK * K, logits.dtype), np.empty(_BLOCK * K * A, logits.dtype)
    for begin in range(Index(first), Index(last), _BLOCK):
        rows = min(_BLOCK, Index(last) - begin)
        count, pair, start = rows * K, begin * K, begin * K * A
        _below_largest(logits, start, count, A, below)
        for r in range(rows):
            action = Index(chosen[begin + r])
            for k in range(r * K, (r + Index(1)) * K):
                log_probs[pair + k] = below[k * A + action]
        for i in range(count * A):
            below[i] = exp_of(below[i])
        for k in range(count):
            total = below[k * A]
            for a in range(Index(1), A):
                total += below[k * A + a]
            totals[k] = total
        for k in range(count):
            log_probs[pair + k] -= log_of(totals[k])
        for k in range(count if probs.size else ZERO):
            share = logits.dtype.type(1) / totals[k]
            for a in range(k * A, k * A + A):
                probs[start + a] = below[a] * share


@numba.njit(**PLAIN)
def backward(first, last, grad, chosen, probs, grad_logits):
    """Fills ``grad_logits (R, K, A)`` from that of the log-probabilities ``(R, K)``."""
    K, A = Index(probs.shape[1]), Index(probs.shape[2])
    grad, probs, grad_logits = grad.reshape(-1), probs.reshape(-1), grad_logits.reshape(-1)
    for row in range(Index(first), Index(last)):
        action = Index(chosen[row])
        for k in range(row * K, (row + Index(1)) * K):
            for a in range(ZERO, A):
                grad_logits[k * A + a] = -grad[k] * probs[k * A + a]
            grad_logits[k * A + action] += grad[k]
