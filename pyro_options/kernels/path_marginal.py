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

from .numba_math import ONE, PLAIN, SUMS, Index, exp, log_add, log_sigmoid, sigmoids

FAINT = 1e-280


@numba.njit(**PLAIN)
def probabilities(logits, emission, mask, likelihood, stop, stay, scratch):
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
def forward(weights, likelihood, stop, stay, mask, predicted, stayed, inverse, switch, raw, least):
    """The forward recursion of one episode. Returns log p and the smallest prediction.

    Fills ``predicted[t]``, p(h_t | a_0..t-1), its part ``stayed[t]`` without a termination, one over the normalizers,
    and ``switch[t]``, p(b_t = 1 | a_0..t-1). A step is normalized in the loop of the next one, so that the division is
    not waited for.
    """
    T, K = Index(likelihood.shape[0]), Index(likelihood.shape[1])
    likelihood, stop, stay = likelihood.reshape(-1), stop.reshape(-1), stay.reshape(-1)
    predicted, stayed = predicted.reshape(-1), stayed.reshape(-1)
    total, product, scale = 0.0, 1.0, 0.0
    switch[0] = 1.0
    for k in range(K):
        least[k] = predicted[k] = weights[k]
        stayed[k] = 0.0
        raw[k] = weights[k] * likelihood[k]
        scale += raw[k]
    for t in range(ONE, T):
        now, mass = t * K, 0.0
        divisor = 1 / scale
        product *= scale
        if not 1e-20 < product < 1e20:
            total += math.log(product)
            product = 1.0
        inverse[t - ONE] = divisor
        if not mask[t]:
            for k in range(K):
                raw[k] *= divisor
            scale, switch[t] = 1.0, 0.0
            continue
        for k in range(K):
            mass += stop[now + k] * raw[k]
        mass *= divisor
        switch[t], scale = mass, 0.0
        for k in range(K):
            kept = stay[now + k] * (raw[k] * divisor)
            expected = weights[k] * mass + kept
            stayed[now + k] = kept
            predicted[now + k] = expected
            least[k] = expected if expected < least[k] else least[k]
            raw[k] = expected * likelihood[now + k]
            scale += raw[k]
    inverse[T - ONE] = 1 / scale
    faintest = 1.0
    for k in range(K):
        faintest = least[k] if least[k] < faintest else faintest
    return total + math.log(product) + math.log(scale), faintest


@numba.njit(**SUMS)
def _backward(weights, likelihood, stop, stay, mask, inverse, switch, beta, most, restarts, grad_weights):
    """The backward recursion of one episode. Returns one over the largest message.

    Messages are divided by the normalizers of the forward recursion, so that their products with predictions are
    probabilities as they are. They replace ``likelihood``; ``restarts[t]`` is the message to a termination at ``t``.
    """
    T, K = Index(likelihood.shape[0]), Index(likelihood.shape[1])
    likelihood, stop, stay, restarts = likelihood.reshape(-1), stop.reshape(-1), stay.reshape(-1), restarts.reshape(-1)
    for k in range(K):
        beta[k] = most[k] = 1.0
        grad_weights[k] = 0.0
    for back in range(ONE, T + ONE):
        t = T - back
        now, restart, divisor, started = t * K, 0.0, inverse[t], switch[t]
        if not mask[t] and t > 0:
            continue
        for k in range(K):
            message = beta[k] * likelihood[now + k] * divisor
            likelihood[now + k] = beta[k] = message
            grad_weights[k] += message * started
            restart += weights[k] * message
        for k in range(K):
            restarts[now + k] = restart
            beta[k] = stay[now + k] * beta[k] + stop[now + k] * restart
            most[k] = beta[k] if beta[k] > most[k] else most[k]
    largest = 1.0
    for k in range(K):
        grad_weights[k] *= weights[k]
        largest = most[k] if most[k] > largest else largest
    return 1 / largest


@numba.njit(**SUMS)
def _gradients(message, predicted, stayed, stop, restarts, mask, grad_logits, grad_emission):
    """Gradients from the results of both recursions. What those left of masked steps is not looked at."""
    message, predicted, stayed = message.reshape(-1), predicted.reshape(-1), stayed.reshape(-1)
    stop, restarts = stop.reshape(-1), restarts.reshape(-1)
    flat_logits, flat_emission = grad_logits.reshape(-1), grad_emission.reshape(-1)
    for i in range(message.size):
        flat_emission[i] = predicted[i] * message[i]
        flat_logits[i] = stayed[i] * stop[i] * (restarts[i] - message[i])
    for t in range(len(mask)):
        if not mask[t]:
            grad_emission[t] = 0.0
            grad_logits[t] = 0.0


@numba.njit(**PLAIN)
def _log_forward(log_weights, logits, emission, mask, alpha, switch):
    """As :func:`forward`, in log space and not normalized."""
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
    likelihood, stop, stay, scratch = np.empty((T, K)), np.empty((T, K)), np.empty((T, K)), np.empty((T, K))
    predicted, stayed, switch, inverse = np.empty((T, K)), np.empty((T, K)), np.empty(T), np.empty(T)
    weights, message, extreme, sums = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    nothing = np.empty((0, K), dtype=emission.dtype)
    for n in range(first, last):
        for k in range(K):
            weights[k] = math.exp(np.float64(log_weights[n, k]))
        divided = probabilities(logits[n], emission[n], mask[n], likelihood, stop, stay, scratch.reshape(-1))
        total, faintest = forward(
            weights, likelihood, stop, stay, mask[n], predicted, stayed, inverse, switch, message, extreme
        )
        value[n] = total + divided
        begun = starts[n] if len(starts) else nothing
        if len(grad_weights):
            behind = _backward(
                weights, likelihood, stop, stay, mask[n], inverse, switch, message, extreme, scratch, sums
            )
            grad_weights[n] = sums
            faintest = min(faintest, behind)
            _gradients(likelihood, predicted, stayed, stop, scratch, mask[n], grad_logits[n], grad_emission[n])
            for t in range(len(begun)):
                for k in range(K):
                    begun[t, k] = weights[k] * switch[t] * likelihood[t, k] if mask[n, t] else 0.0
        if faintest < FAINT:
            exact = _log_forward(log_weights[n], logits[n], emission[n], mask[n], predicted, switch)
            value[n] = exact
            if len(grad_weights):
                _log_backward(
                    exact, log_weights[n], logits[n], emission[n], mask[n], predicted, switch, message,
                    grad_weights[n], grad_logits[n], grad_emission[n], begun,
                )  # fmt: skip
