r"""Numba kernel: the likelihood of sequences whose states have rows of transitions, summed out, and its gradients.

One forward and one backward recursion per sequence, always in float64, each step normalized to a sum or maximum of one:

.. math:: \alpha_t = p_t \odot [(1-\psi_t)\odot\alpha_{t-1} + \Pi^\top(\psi_t\odot\alpha_{t-1})], \qquad
    \beta_{t-1} = (1-\psi_t)\odot(p_t\odot\beta_t) + \psi_t\odot\Pi(p_t\odot\beta_t)

Observation likelihoods p are divided by the largest one of their step, so underflow can only occur where a predicted
probability or a backward message falls below ``FAINT``; such a sequence is computed again in log space.

Shapes: ``log_first (N, K)``, ``log_rows (G, K, K)``, one matrix for each of G equal groups of consecutive sequences,
``logits`` and ``emission`` ``(N, T, K)``. Outputs are ``value (N,)``, and, unless they are empty, the gradients
``grad_first (N, K)``, ``grad_rows (N, K, K)``, ``grad_logits`` and ``grad_emission`` ``(N, T, K)``, of which the last
is :math:`p(h_t=k\mid x)`, and ``starts (N, T, K)``, the probability that t is entered by a transition to k.
"""

import math

import numba
import numpy as np

from .numba_math import PLAIN, SUMS, exp, log_add, log_sigmoid, sigmoids

FAINT = 1e-280


@numba.njit(**PLAIN)
def _probabilities(logits, emission, likelihood, leave, stay, scratch):
    """Likelihoods relative to the best state, ψ and 1 - ψ of one sequence. Returns the sum of the log maxima."""
    T, K = emission.shape
    total = 0.0
    for t in range(T):
        best = np.float64(emission[t, 0])
        for k in range(1, K):
            best = max(best, np.float64(emission[t, k]))
        total += best
        for k in range(K):
            stay[t, k] = emission[t, k] - best
    exp(stay.reshape(-1), scratch, likelihood.reshape(-1))
    sigmoids(logits.reshape(-1), scratch, leave.reshape(-1), stay.reshape(-1))
    return total


@numba.njit(**SUMS)
def _forward(first, rows, likelihood, leave, stay, alpha, arrived):
    """Filtered ``alpha``, and ``arrived``, the mass of transitions. Returns log p and the smallest prediction."""
    T, K = likelihood.shape
    total, product, faintest = 0.0, 1.0, 1.0
    for t in range(T):
        for k in range(K):
            arrived[t, k] = first[k] if t == 0 else 0.0
        if t > 0:
            for j in range(K):
                left = leave[t, j] * alpha[t - 1, j]
                if left > 0.0:
                    for k in range(K):
                        arrived[t, k] += left * rows[j, k]
        scale, smallest, least_likely = 0.0, 1.0, 1.0
        for k in range(K):
            predicted = arrived[t, k] + (stay[t, k] * alpha[t - 1, k] if t > 0 else 0.0)
            smallest = predicted if predicted < smallest else smallest
            least_likely = likelihood[t, k] if likelihood[t, k] < least_likely else least_likely
            alpha[t, k] = predicted * likelihood[t, k]
            scale += alpha[t, k]
        if least_likely < 1.0:  # else, as in padding, nothing is divided
            faintest = min(faintest, smallest)
        inverse = 1 / scale
        for k in range(K):
            alpha[t, k] *= inverse
        product *= scale
        if not 1e-20 < product < 1e20:
            total += math.log(product)
            product = 1.0
    return total + math.log(product), faintest


@numba.njit(**SUMS)
def _backward(
    rows, likelihood, leave, stay, alpha, arrived, ahead, onward, grad_first, grad_rows, grad_logits, grad_emission,
    starts, moves,
):  # fmt: skip
    """Gradients from the messages of one sequence. Returns the faintest backward message."""
    T, K = likelihood.shape
    faintest = 1.0
    ahead[:] = 1.0
    moves[:] = 0.0
    for back in range(T):
        t = T - 1 - back
        best = 0.0
        for k in range(K):
            ahead[k] *= likelihood[t, k]
            best = ahead[k] if ahead[k] > best else best
        inverse, evidence, leaving = 1 / best, 0.0, 0.0
        for k in range(K):
            ahead[k] *= inverse
            evidence += arrived[t, k] * ahead[k]
            if t > 0:
                evidence += stay[t, k] * alpha[t - 1, k] * ahead[k]
                leaving += leave[t, k]
        inverse = 1 / evidence
        for k in range(K):
            start = arrived[t, k] * ahead[k] * inverse
            grad_emission[t, k] = start
            grad_logits[t, k] = 0.0
            if len(starts):
                starts[t, k] = start
        if t == 0:
            for k in range(K):
                grad_first[k] = grad_emission[0, k]
            break
        for j in range(K):
            onward[j] = 0.0
            if leaving > 0.0:
                for k in range(K):
                    onward[j] += rows[j, k] * ahead[k]
                left = leave[t, j] * alpha[t - 1, j] * inverse
                for k in range(K):
                    moves[j, k] += left * ahead[k]
        for k in range(K):
            kept = stay[t, k] * alpha[t - 1, k] * inverse
            grad_emission[t, k] += kept * ahead[k]
            grad_logits[t, k] = kept * leave[t, k] * (onward[k] - ahead[k])
            ahead[k] = stay[t, k] * ahead[k] + leave[t, k] * onward[k]
            faintest = ahead[k] if ahead[k] < faintest else faintest
    for j in range(K):
        for k in range(K):
            grad_rows[j, k] = moves[j, k] * rows[j, k]
    return faintest


@numba.njit(**PLAIN)
def _log_forward(log_first, log_rows, logits, emission, alpha, arrived):
    """As :func:`_forward`, in log space and not normalized."""
    T, K = emission.shape
    for t in range(T):
        for k in range(K):
            arrived[t, k] = log_first[k] if t == 0 else -math.inf
        if t > 0:
            for j in range(K):
                left = log_sigmoid(logits[t, j]) + alpha[t - 1, j]
                for k in range(K):
                    arrived[t, k] = log_add(arrived[t, k], left + log_rows[j, k])
        for k in range(K):
            stayed = log_sigmoid(-logits[t, k]) + alpha[t - 1, k] if t > 0 else -math.inf
            alpha[t, k] = log_add(arrived[t, k], stayed) + emission[t, k]
    value = -math.inf
    for k in range(K):
        value = log_add(value, alpha[T - 1, k])
    return value


@numba.njit(**PLAIN)
def _log_backward(
    value, log_rows, logits, emission, alpha, arrived, ahead, message, grad_first, grad_rows, grad_logits,
    grad_emission, starts, moves,
):  # fmt: skip
    """As :func:`_backward`, in log space."""
    T, K = emission.shape
    ahead[:] = 0.0
    moves[:] = 0.0
    for t in range(T - 1, -1, -1):
        for k in range(K):
            ahead[k] += emission[t, k]
            grad_emission[t, k] = math.exp(arrived[t, k] + ahead[k] - value)
            grad_logits[t, k] = 0.0
            if len(starts):
                starts[t, k] = grad_emission[t, k]
        if t == 0:
            for k in range(K):
                grad_first[k] = grad_emission[0, k]
            break
        for j in range(K):
            log_leave, log_stay = log_sigmoid(logits[t, j]), log_sigmoid(-logits[t, j])
            onward = -math.inf
            for k in range(K):
                onward = log_add(onward, log_rows[j, k] + ahead[k])
                moves[j, k] += math.exp(alpha[t - 1, j] + log_leave + log_rows[j, k] + ahead[k] - value)
            kept = math.exp(alpha[t - 1, j] + log_stay + ahead[j] - value)
            left = math.exp(alpha[t - 1, j] + log_leave + onward - value)
            grad_emission[t, j] += kept
            grad_logits[t, j] = left * math.exp(log_stay) - kept * math.exp(log_leave)
            message[j] = log_add(log_stay + ahead[j], log_leave + onward)
        ahead[:] = message
    grad_rows[:] = moves


@numba.njit(**PLAIN)
def log_marginal(
    first, last, log_first, log_rows, logits, emission, value, grad_first, grad_rows, grad_logits, grad_emission, starts
):  # fmt: skip
    """Marginals, and gradients and starts unless their arrays are empty, of sequences ``first`` to ``last - 1``."""
    N, T, K = emission.shape
    likelihood, leave, stay = np.empty((T, K)), np.empty((T, K)), np.empty((T, K))
    alpha, arrived, scratch = np.empty((T, K)), np.empty((T, K)), np.empty(T * K)
    start, rows, moves, ahead, onward = np.empty(K), np.empty((K, K)), np.empty((K, K)), np.empty(K), np.empty(K)
    nothing, per_group, group = np.empty((0, K), dtype=emission.dtype), N // len(log_rows), -1
    for n in range(first, last):
        if n // per_group != group:
            group = n // per_group
            for j in range(K):
                for k in range(K):
                    rows[j, k] = math.exp(np.float64(log_rows[group, j, k]))
        for k in range(K):
            start[k] = math.exp(np.float64(log_first[n, k]))
        divided = _probabilities(logits[n], emission[n], likelihood, leave, stay, scratch)
        total, faintest = _forward(start, rows, likelihood, leave, stay, alpha, arrived)
        value[n] = total + divided
        begun = starts[n] if len(starts) else nothing
        if len(grad_first):
            behind = _backward(
                rows, likelihood, leave, stay, alpha, arrived, ahead, onward,
                grad_first[n], grad_rows[n], grad_logits[n], grad_emission[n], begun, moves,
            )  # fmt: skip
            faintest = min(faintest, behind)
        if not faintest >= FAINT:
            exact = _log_forward(log_first[n], log_rows[group], logits[n], emission[n], alpha, arrived)
            value[n] = exact
            if len(grad_first):
                _log_backward(
                    exact, log_rows[group], logits[n], emission[n], alpha, arrived, ahead, onward,
                    grad_first[n], grad_rows[n], grad_logits[n], grad_emission[n], begun, moves,
                )  # fmt: skip
