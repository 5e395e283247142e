r"""Log-probabilities of choices from logits, and the way back, compiled for the CPU. Importing this imports numba.

Shapes: ``logits (M, K, A)``, in any strides, ``index (M,)``; results ``(M, K)``.
"""

import numba

from .numba_math import LOOPS, ONE, Index, exp_of


@numba.njit(**LOOPS)
def choose(first, last, logits, index, weights, above, total):
    """``weights (M, K, A)`` and their sum ``total``, the largest being 1; ``above``, the log of the chosen weight."""
    K, A = Index(logits.shape[1]), Index(logits.shape[2])
    flat = weights.reshape(-1)
    for m in range(Index(first), Index(last)):
        begin, end = m * K * A, (m + ONE) * K * A
        for k in range(K):
            best = logits[m, k, 0]
            for a in range(A):
                best = logits[m, k, a] if logits[m, k, a] > best else best
            for a in range(A):
                flat[begin + k * A + a] = logits[m, k, a] - best
            above[m, k] = weights[m, k, Index(index[m])]
        for i in range(begin, end):
            flat[i] = exp_of(flat[i])
        for k in range(K):
            mass = weights.dtype.type(0)
            for a in range(A):
                mass += weights[m, k, a]
            total[m, k] = mass


@numba.njit(**LOOPS)
def choose_backward(first, last, grad, index, weights, total, grad_logits):
    K, A = Index(weights.shape[1]), Index(weights.shape[2])
    for m in range(Index(first), Index(last)):
        for k in range(K):
            scale = -grad[m, k] / total[m, k]
            for a in range(A):
                grad_logits[m, k, a] = scale * weights[m, k, a]
            grad_logits[m, k, Index(index[m])] += grad[m, k]
