r"""Numba kernel: the marginal likelihood of actions with the option path summed out, and its gradients.

One forward and one backward recursion per episode, always in float64, each step normalized to a sum or maximum of one.
Since emissions are divided by the largest one of their step, underflow can only occur where a predicted probability or
a backward message falls below ``FAINT`` (weights or terminations below :math:`e^{-640}`); such an episode is computed
again in log space.

Shapes: ``log_weights (N, K)``, ``logits`` and ``emission`` ``(N, T, K)``, ``mask (N, T)``; a masked step is the
identity. Outputs are ``value (N,)``, the gradients, shaped like the inputs (that of the emission is
:math:`p(h_t=k\mid a)`), and ``starts (N, T, K)``, :math:`p(b_t=1, h_t=k\mid a)`; empty output arrays are skipped.
"""

import math

import numba
import numpy as np

from .numba_math import PLAIN, SUMS, exp, log_add, log_sigmoid, sigmoids

FAINT = 1e-280


@numba.njit(**PLAIN)
def _probabilities(logits, emission, mask, likelihood, stop, stay, scratch):
    """Likelihoods relative to the best option, ψ and 1 - ψ of one episode. Returns the sum of the log maxima."""
    T, K = emission.shape
    total = 0.0
    x = stay  # filled last
    for t in range(T):
        best = 0.0
        if mask[t]:
            best = np.float64(emission[t, 0])
            for k in range(1, K):
                best = max(best, np.float64(emission[t, k]))
            total += best
        for k in range(K):
            x[t, k] = emission[t, k] - best if mask[t] else 0.0
    exp(x.reshape(-1), scratch, likelihood.reshape(-1))
    sigmoids(logits.reshape(-1), scratch, stop.reshape(-1), stay.reshape(-1))
    return total


@numba.njit(**SUMS)
def _forward(weights, likelihood, stop, stay, mask, alpha, switch):
    """Filtered ``alpha[t]`` and ``switch[t]``, p(b_t = 1 | a_0..t-1). Returns log p and the smallest prediction."""
    T, K = likelihood.shape
    total, product, faintest = 0.0, 1.0, 1.0
    for t in range(T):
        if t > 0 and not mask[t]:
            for k in range(K):
                alpha[t, k] = alpha[t - 1, k]
            continue
        mass, scale = 1.0, 0.0
        if t > 0:
            mass = 0.0
            for k in range(K):
                mass += stop[t, k] * alpha[t - 1, k]
            for k in range(K):
                alpha[t, k] = weights[k] * mass + stay[t, k] * alpha[t - 1, k]
        else:
            alpha[t] = weights
        for k in range(K):
            faintest = alpha[t, k] if alpha[t, k] < faintest else faintest
            alpha[t, k] *= likelihood[t, k]
            scale += alpha[t, k]
        switch[t] = mass
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
    weights, likelihood, stop, stay, mask, alpha, switch, beta, grad_weights, grad_logits, grad_emission, starts
):
    """Gradients from the messages of one episode. Returns the smallest backward message."""
    T, K = likelihood.shape
    faintest = 1.0
    beta[:] = 1.0
    grad_weights[:] = 0.0
    for t in range(T - 1, -1, -1):
        if t > 0 and not mask[t]:
            for k in range(K):
                grad_logits[t, k] = 0.0
                grad_emission[t, k] = 0.0
            if len(starts):
                starts[t] = 0.0
            continue
        best, restart = 0.0, 0.0
        for k in range(K):
            beta[k] *= likelihood[t, k]
            best = beta[k] if beta[k] > best else best
        inverse = 1 / best
        for k in range(K):
            beta[k] *= inverse
            restart += weights[k] * beta[k]
        if t == 0:
            for k in range(K):
                start = weights[k] * beta[k] / restart
                grad_weights[k] += start
                grad_emission[0, k] = start if mask[0] else 0.0
                grad_logits[0, k] = 0.0
            if len(starts):
                starts[0] = grad_emission[0]
            break
        evidence = switch[t] * restart
        for k in range(K):
            evidence += stay[t, k] * alpha[t - 1, k] * beta[k]
        inverse = 1 / evidence
        started = switch[t] * inverse
        for k in range(K):
            start = weights[k] * beta[k] * started
            before = stay[t, k] * alpha[t - 1, k] * inverse
            grad_weights[k] += start
            grad_emission[t, k] = start + before * beta[k]
            grad_logits[t, k] = before * stop[t, k] * (restart - beta[k])
        if len(starts):
            for k in range(K):
                starts[t, k] = weights[k] * beta[k] * started
        for k in range(K):
            beta[k] = stay[t, k] * beta[k] + stop[t, k] * restart
            faintest = beta[k] if beta[k] < faintest else faintest
    return faintest


@numba.njit(**PLAIN)
def _log_forward(log_weights, logits, emission, mask, alpha, switch):
    """As :func:`_forward`, in log space and not normalized."""
    T, K = emission.shape
    for t in range(T):
        mass = 0.0
        if t > 0:
            mass = -math.inf
            for k in range(K):
                log_stop = log_sigmoid(logits[t, k]) if mask[t] else -math.inf
                mass = log_add(mass, log_stop + alpha[t - 1, k])
        for k in range(K):
            alpha[t, k] = log_weights[k] + mass
            if t > 0:
                log_stay = log_sigmoid(-logits[t, k]) if mask[t] else 0.0
                alpha[t, k] = log_add(alpha[t, k], log_stay + alpha[t - 1, k])
            if mask[t]:
                alpha[t, k] += emission[t, k]
        switch[t] = mass
    value = -math.inf
    for k in range(K):
        value = log_add(value, alpha[T - 1, k])
    return value


@numba.njit(**PLAIN)
def _log_backward(
    value, log_weights, logits, emission, mask, alpha, switch, beta, grad_weights, grad_logits, grad_emission, starts
):
    """As :func:`_backward`, in log space."""
    T, K = emission.shape
    beta[:] = 0.0
    grad_weights[:] = 0.0
    for t in range(T - 1, -1, -1):
        restart = -math.inf
        for k in range(K):
            if mask[t]:
                beta[k] += emission[t, k]
            restart = log_add(restart, log_weights[k] + beta[k])
        for k in range(K):
            start = math.exp(log_weights[k] + switch[t] + beta[k] - value)
            grad_weights[k] += start
            grad_emission[t, k] = start if mask[t] else 0.0
            if len(starts):
                starts[t, k] = grad_emission[t, k]
            grad_logits[t, k] = 0.0
            if t > 0 and mask[t]:
                log_stay, log_stop = log_sigmoid(-logits[t, k]), log_sigmoid(logits[t, k])
                stay = math.exp(alpha[t - 1, k] + log_stay + beta[k] - value)
                stop = math.exp(alpha[t - 1, k] + log_stop + restart - value)
                grad_emission[t, k] += stay
                grad_logits[t, k] = stop * math.exp(log_stay) - stay * math.exp(log_stop)
                beta[k] = log_add(log_stay + beta[k], log_stop + restart)


@numba.njit(**PLAIN)
def log_marginal(
    first, last, log_weights, logits, emission, mask, value, grad_weights, grad_logits, grad_emission, starts
):
    """Marginals, and gradients and starts unless their arrays are empty, of episodes ``first`` to ``last - 1``."""
    T, K = emission.shape[1:]
    likelihood, stop, stay, alpha = np.empty((T, K)), np.empty((T, K)), np.empty((T, K)), np.empty((T, K))
    scratch, switch = np.empty(T * K), np.empty(T)
    weights, beta = np.empty(K), np.empty(K)
    nothing = np.empty((0, K), dtype=emission.dtype)
    for n in range(first, last):
        for k in range(K):
            weights[k] = math.exp(np.float64(log_weights[n, k]))
        divided = _probabilities(logits[n], emission[n], mask[n], likelihood, stop, stay, scratch)
        total, faintest = _forward(weights, likelihood, stop, stay, mask[n], alpha, switch)
        value[n] = total + divided
        begun = starts[n] if len(starts) else nothing
        if len(grad_weights):
            behind = _backward(
                weights, likelihood, stop, stay, mask[n], alpha, switch, beta,
                grad_weights[n], grad_logits[n], grad_emission[n], begun,
            )  # fmt: skip
            faintest = min(faintest, behind)
        if faintest < FAINT:
            exact = _log_forward(log_weights[n], logits[n], emission[n], mask[n], alpha, switch)
            value[n] = exact
            if len(grad_weights):
                _log_backward(
                    exact, log_weights[n], logits[n], emission[n], mask[n], alpha, switch, beta,
                    grad_weights[n], grad_logits[n], grad_emission[n], begun,
                )  # fmt: skip
