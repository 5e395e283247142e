r"""Numba kernel: the marginal likelihood of actions with segments and skills summed out, and its gradients.

Always in float64, with likelihoods divided by that of the best skill at each step, so that all numbers are at most one
and no further normalization is needed. Terms that underflow are below 1e-308, which is negligible for an episode whose
probability is above ``FAINT``; the caller computes the others in log space.

Shapes: ``log_weights (N, K)``, ``exactly`` and ``at_least`` ``(T + 1,)``, P(L = l) and P(L >= l) of a segment's length
L, ``emission (N, T, K)``, ``lengths (N,)``. Outputs are ``value (N,)``, :math:`-\infty` for an episode below ``FAINT``,
``grad_weights (N, K)``, ``grad_emission (N, T, K)``, which is :math:`p(h_t=k\mid a)`, and ``starts (N, T, K)``, the
probability that a segment of skill k begins at t; empty output arrays are skipped.
"""

import math

import numba
import numpy as np

from .numba_math import PLAIN, SUMS

FAINT = 1e-260


@numba.njit(**PLAIN)
def _relative(emission, length, likelihood):
    """Likelihoods of one episode relative to the best skill. Returns the sum of the log maxima."""
    K = emission.shape[1]
    total = 0.0
    for t in range(length):
        best = np.float64(emission[t, 0])
        for k in range(1, K):
            best = max(best, np.float64(emission[t, k]))
        total += best
        for k in range(K):
            likelihood[t, k] = math.exp(emission[t, k] - best)
    return total


@numba.njit(**SUMS)
def _segments(weights, likelihood, length, evidence):
    """``evidence[s, u]``, the probability of actions s to u - 1 as one segment, with its skill summed out."""
    K = len(weights)
    each = np.empty(K)
    whole = weights.sum()
    for s in range(length + 1):
        evidence[s, s] = whole
        each[:] = weights
        for u in range(s + 1, length + 1):
            total = 0.0
            for k in range(K):
                each[k] *= likelihood[u - 1, k]
                total += each[k]
            evidence[s, u] = total


@numba.njit(**PLAIN)
def _chance(s, u, length, exactly, at_least):
    """The probability that a segment which begins at s ends at u."""
    return at_least[u - s] if u == length else exactly[u - s]


@numba.njit(**SUMS)
def _forward(evidence, length, exactly, at_least, alpha):
    """``alpha[u, j]``, the probability of the actions before u and of segment j ending at u. Returns the marginal."""
    M = alpha.shape[1]
    alpha[: length + 1] = 0.0
    alpha[0, 0] = 1.0
    for s in range(length + 1):
        for j in range(1, M):  # an empty segment ends where the one before it does
            alpha[s, j] += alpha[s, j - 1] * _chance(s, s, length, exactly, at_least) * evidence[s, s]
        for u in range(s + 1, length + 1):
            reach = _chance(s, u, length, exactly, at_least) * evidence[s, u]
            for j in range(1, M):
                alpha[u, j] += alpha[s, j - 1] * reach
    marginal = 0.0
    for s in range(length + 1):
        marginal += alpha[s, M - 1] * evidence[s, length]
    return marginal


@numba.njit(**SUMS)
def _backward(evidence, length, exactly, at_least, beta):
    """``beta[s, j]``, the probability of the actions from s on, given that segment j ends at s."""
    M = beta.shape[1]
    for s in range(length, -1, -1):
        beta[s, : M - 1] = 0.0
        beta[s, M - 1] = evidence[s, length]
        for u in range(s + 1, length + 1):
            reach = _chance(s, u, length, exactly, at_least) * evidence[s, u]
            for j in range(M - 1):
                beta[s, j] += reach * beta[u, j + 1]
        for j in range(M - 2, -1, -1):
            beta[s, j] += _chance(s, s, length, exactly, at_least) * evidence[s, s] * beta[s, j + 1]


@numba.njit(**SUMS)
def _gradients(
    weights, likelihood, length, exactly, at_least, marginal, alpha, beta, each, grad_weights, grad_emission, starts
):
    """Expected numbers of segments from s to u with skill k, summed over the segments that contain a step.

    :param beta: divided by the marginal
    """
    M, K = alpha.shape[1], len(weights)
    grad_weights[:] = 0.0
    grad_emission[:] = 0.0
    if len(starts):
        starts[:] = 0.0
    later, sums, total = np.empty(K), np.zeros((length, K)), np.zeros(K)
    for s in range(length + 1):
        each[s] = weights
        for u in range(s + 1, length + 1):
            for k in range(K):
                each[u, k] = each[u - 1, k] * likelihood[u - 1, k]
        later[:] = 0.0
        for u in range(length, s - 1, -1):
            expected = 0.0
            for j in range(1, M):
                expected += alpha[s, j - 1] * beta[u, j]
            expected *= _chance(s, u, length, exactly, at_least)
            if u == length:
                expected += alpha[s, M - 1] / marginal
            for k in range(K):
                if u > s:
                    later[k] += expected * each[u, k]
                    sums[u - 1, k] += later[k]
                else:
                    total[k] += later[k] + expected * each[u, k]
        if len(starts) and s < length:
            for k in range(K):
                starts[s, k] = later[k]
    for k in range(K):
        grad_weights[k] = total[k]
        for t in range(length):
            grad_emission[t, k] = sums[t, k]


@numba.njit(**PLAIN)
def log_marginal(
    first, last, log_weights, exactly, at_least, emission, lengths, settings, value, grad_weights, grad_emission, starts
):
    """Marginals, and gradients and starts unless their arrays are empty, of episodes ``first`` to ``last - 1``.

    :param settings: M
    """
    T, K = emission.shape[1:]
    M = settings[0]
    weights, likelihood, evidence = np.empty(K), np.empty((T, K)), np.empty((T + 1, T + 1))
    alpha, beta, each = np.empty((T + 1, M)), np.empty((T + 1, M)), np.empty((T + 1, K))
    nothing = np.empty((0, K), dtype=emission.dtype)
    for n in range(first, last):
        for k in range(K):
            weights[k] = math.exp(np.float64(log_weights[n, k]))
        length = lengths[n]
        divided = _relative(emission[n], length, likelihood)
        _segments(weights, likelihood, length, evidence)
        marginal = _forward(evidence, length, exactly, at_least, alpha)
        if not marginal > FAINT:
            value[n] = -math.inf
            continue
        value[n] = math.log(marginal) + divided
        if len(grad_weights):
            _backward(evidence, length, exactly, at_least, beta)
            beta[: length + 1] /= marginal
            _gradients(
                weights, likelihood, length, exactly, at_least, marginal, alpha, beta, each,
                grad_weights[n], grad_emission[n], starts[n] if len(starts) else nothing,
            )  # fmt: skip
