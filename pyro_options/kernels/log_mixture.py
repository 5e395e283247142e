r"""Logarithms of mixtures, and the way back, compiled for the CPU. Importing this imports numba.

Shapes: ``shares`` and ``logs`` ``(M, K)``, in any strides; ``ratios (M, K)``, the values over their mixture; results
``(M,)``.
"""

import numba
import numpy as np

from .numba_math import LOOPS, Index, exp_of


@numba.njit(**LOOPS)
def mix(first, last, shares, logs, tiny, best, total, ratios):
    """``total``, the mixture of the exponentials over the largest, whose logarithm is ``best``."""
    K = Index(shares.shape[1])
    values = np.empty(K, ratios.dtype)
    for m in range(Index(first), Index(last)):
        top = logs[m, 0]
        for k in range(K):
            top = logs[m, k] if logs[m, k] > top else top
        for k in range(K):
            values[k] = exp_of(logs[m, k] - top)
        mass = ratios.dtype.type(0)
        for k in range(K):
            mass += values[k] * (tiny[0] if shares[m, k] < tiny[0] else shares[m, k])
        for k in range(K):
            ratios[m, k] = values[k] / mass
        best[m], total[m] = top, mass


@numba.njit(**LOOPS)
def mix_backward(first, last, grad, shares, tiny, ratios, grad_shares, grad_logs):
    K = Index(shares.shape[1])
    for m in range(Index(first), Index(last)):
        for k in range(K):
            slope = grad[m] * ratios[m, k]
            low = shares[m, k] < tiny[0]
            grad_shares[m, k] = ratios.dtype.type(0) if low else slope
            grad_logs[m, k] = slope * (tiny[0] if low else shares[m, k])
