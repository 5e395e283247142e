r"""Numba kernel: paths drawn from a chain that is built on a model's evidence, and the gradient of its message.

The same as :func:`~pyro_options.options.path_steps.look_ahead`, ``steps_given``, ``walk``, ``transitions_given`` and
``average`` together. Messages are multiplied out, not logarithms added, so a step ahead needs no exponential:

.. math:: X = e^{e_t + r_t}, \quad S = \langle\eta, X\rangle, \quad e^{r_{t-1}} = (1-\psi_t)\odot X + \psi_t S

Messages matter up to a factor: each is divided by its maximum. Shapes: ``log_weights (N, K)``; ``logits``, ``emission``,
``message``, ``starts``, ``stays``, ``stops`` ``(N, T, K)``; ``noise (N, T, K + 1)``, or ``(N, 0, 0)`` for the marginals of
the chain; ``path (N, T, K + 1)``; ``log_prob (N,)``. Saved for the backward pass, all ``(N, T, K)``: ``likelihood``
:math:`e^{e_t}`, ``psi``, ``ahead`` :math:`e^{r}` before looking ahead, ``log_message`` r after it, ``log_starts``,
``stop_logits`` and ``fresh``, the relaxed draw of a new option.
"""

import math

import numba
import numpy as np

from .numba_math import LOOPS, ONE, ZERO, Index, exp_of


@numba.njit(**LOOPS)
def _exp_of_row(x, out):
    """exp of a row, divided by its maximum, and the logarithm of that maximum."""
    K = Index(len(x))
    best = x[ZERO]
    for k in range(K):
        best = x[k] if x[k] > best else best
    for k in range(K):
        out[k] = exp_of(x[k] - best)
    return best


@numba.njit(**LOOPS)
def _step_back(weights, psi, likelihood, message, out):
    """The message of step t - 1 from that of step t; both are rows, and may be the same array."""
    K, tiny, zero = Index(len(weights)), out.dtype.type(1e-30), out.dtype.type(0)
    total, best = zero, zero
    for k in range(K):
        total += weights[k] * likelihood[k] * message[k]
    for k in range(K):
        x = likelihood[k] * message[k]
        out[k] = x + psi[k] * (total - x)
        best = out[k] if out[k] > best else best
    for k in range(K):
        out[k] = max(out[k] / max(best, tiny), tiny)


@numba.njit(**LOOPS)
def _stops(logit, options, stops, stays):
    """Splits the previous options into those that stop and those that stay; returns the log q(b) that it averages."""
    one, zero, total = logit.dtype.type(1), logit.dtype.type(0), 0.0
    for k in range(Index(len(logit))):
        small = exp_of(-abs(logit[k]))
        low, high = small / (one + small), one / (one + small)
        stop, stay = (high, low) if logit[k] > zero else (low, high)
        stops[k], stays[k] = options[k] * stop, options[k] * stay
        log_high = math.log(one + small)
        log_stop = min(logit[k], zero) - log_high
        log_stay = min(-logit[k], zero) - log_high
        total += options[k] * (stop * log_stop + stay * log_stay)
    return total


@numba.njit(**LOOPS)
def _relax(log_start, noise, log_odds, coldness, hard, fresh):
    """Draws a new option into ``fresh``, and returns b."""
    K, one = Index(len(log_start)), coldness.dtype.type(1)
    best, place = log_start[ZERO] + noise[ONE], ZERO
    for k in range(K):
        value = log_start[k] + noise[k + ONE]
        if value > best:
            best, place = value, k
    noisy = log_odds + noise[ZERO]
    if hard:
        fresh[:] = 0.0
        fresh[place] = 1.0
        return one if noisy > 0 else one - one
    total = fresh.dtype.type(0)
    for k in range(K):
        fresh[k] = exp_of((log_start[k] + noise[k + ONE] - best) * coldness[0])
        total += fresh[k]
    for k in range(K):
        fresh[k] /= total
    small = exp_of(-abs(noisy) * coldness[0])
    return (one if noisy > 0 else small) / (one + small)


@numba.njit(**LOOPS)
def _chain(log_weights, weights, logit, emission, likelihood, message, top, log_message, log_start, stop_logit):
    """The distribution of one step from its message; ``top`` is the logarithm of the factor of the likelihood."""
    K = Index(len(weights))
    total = log_start.dtype.type(0)
    for k in range(K):
        total += weights[k] * likelihood[k] * message[k]
    log_total = math.log(max(total, log_start.dtype.type(1e-37))) + top
    for k in range(K):
        log_message[k] = math.log(message[k])
        value = emission[k] + log_message[k]
        log_start[k] = log_weights[k] + value - log_total
        stop_logit[k] = logit[k] + log_total - value


@numba.njit(**LOOPS)
def draw(
    first, last, log_weights, logits, emission, message, noise, coldness, flags,
    path, starts, stays, stops, log_prob, likelihood, psi, ahead, log_message, log_starts, stop_logits, fresh,
):  # fmt: skip
    """Paths of episodes ``first`` to ``last - 1``; ``flags``: steps to look ahead, and whether paths are discrete."""
    T, K = Index(logits.shape[1]), Index(logits.shape[2])
    count, hard, noisy, one = flags[0], flags[1] > 0, noise.shape[1] > 0, path.dtype.type(1)
    weights, options = np.empty((2, K), path.dtype)
    level, tops = np.empty((T, K), path.dtype), np.empty(T, path.dtype)
    floor = path.dtype.type(np.finfo(path.dtype).tiny)
    for n in range(Index(first), Index(last)):
        for k in range(K):
            weights[k] = math.exp(log_weights[n, k])
        for t in range(T):
            tops[t] = _exp_of_row(emission[n, t], likelihood[n, t])
            _exp_of_row(message[n, t], ahead[n, t])
            for k in range(K):
                small = exp_of(-abs(logits[n, t, k]))
                psi[n, t, k] = (one if logits[n, t, k] > 0 else small) / (one + small)
                level[t, k] = ahead[n, t, k]
        for _ in range(count):
            for t in range(ONE, T):
                _step_back(weights, psi[n, t], likelihood[n, t], level[t], level[t - ONE])
            level[T - ONE] = 1.0
        options[:] = 0.0
        total = 0.0
        for t in range(T):
            _chain(
                log_weights[n], weights, logits[n, t], emission[n, t], likelihood[n, t], level[t], tops[t],
                log_message[n, t], log_starts[n, t], stop_logits[n, t],
            )  # fmt: skip
            total += _stops(stop_logits[n, t], options, stops[n, t], stays[n, t])
            stop, stay = path.dtype.type(0), path.dtype.type(0)
            for k in range(K):
                stop += stops[n, t, k]
                stay += stays[n, t, k]
            stop = one if t == ZERO else stop
            for k in range(K):
                start = math.exp(log_starts[n, t, k])
                starts[n, t, k] = stop * start
                total += stop * start * log_starts[n, t, k]
            b = stop
            if noisy:
                log_odds = math.log(max(stop, floor)) - math.log(max(stay, floor))
                b = _relax(log_starts[n, t], noise[n, t], log_odds, coldness, hard, fresh[n, t])
                b = one if t == ZERO else b
                for k in range(K):
                    options[k] += b * (fresh[n, t, k] - options[k])
                    total -= (starts[n, t, k] + stays[n, t, k] - options[k]) * log_message[n, t, k]
            else:
                for k in range(K):
                    options[k] = starts[n, t, k] + stays[n, t, k]
            path[n, t, ZERO] = b
            for k in range(K):
                path[n, t, k + ONE] = options[k]
        log_prob[n] = total


@numba.njit(**LOOPS)
def _draw_backward(log_odds_grad, coldness, b, down, fresh, before, by_log_start, by_before):
    """Gradients through a relaxed draw: of ``log_starts``, of the previous options, and of the log odds of b."""
    K, zero = Index(len(fresh)), fresh.dtype.type(0)
    by_b, mean = log_odds_grad, zero
    for k in range(K):
        by_b += down[k] * (fresh[k] - before[k])
        mean += b * down[k] * fresh[k]
        by_before[k] += (1 - b) * down[k]
    for k in range(K):
        by_log_start[k] += fresh[k] * (b * down[k] - mean) * coldness[0]
    return by_b * b * (1 - b) * coldness[0]


@numba.njit(**LOOPS)
def _back_through_levels(weights, psi, likelihood, ahead, count, grad, levels):
    """Takes the gradient of the message after looking ahead to that of the message before; ``grad (T, K)``, in place."""
    T, K = Index(grad.shape[0]), Index(grad.shape[1])
    zero = grad.dtype.type(0)
    levels[0] = ahead
    for i in range(count - 1):
        for t in range(ONE, T):
            _step_back(weights, psi[t], likelihood[t], levels[i, t], levels[i + 1, t - ONE])
        levels[i + 1, T - ONE] = 1.0
    for back in range(count):
        level = levels[count - 1 - back]
        for place in range(ONE, T):
            t = T - place
            total, leaving = zero, zero
            for k in range(K):
                total += weights[k] * likelihood[t, k] * level[t, k]
            for k in range(K):
                x = likelihood[t, k] * level[t, k]
                share = grad[t - ONE, k] / max(x + psi[t, k] * (total - x), grad.dtype.type(1e-30))
                leaving += share * psi[t, k]
                grad[t, k] = share * (1 - psi[t, k]) * x
            for k in range(K):
                grad[t, k] += weights[k] * likelihood[t, k] * level[t, k] * leaving
        grad[ZERO] = 0.0


@numba.njit(**LOOPS)
def draw_backward(
    first, last, grad_path, grad_starts, grad_stays, grad_stops, grad_log_prob, log_weights, coldness, flags, path,
    stays, stops, likelihood, psi, ahead, log_message, log_starts, stop_logits, fresh, grad_message,
):  # fmt: skip
    """Fills the gradient of the message ``(N, T, K)``; ``fresh`` is ``(N, 0, 0)`` for marginals."""
    T, K = Index(psi.shape[1]), Index(psi.shape[2])
    dtype = path.dtype
    count, noisy, floor, one = flags[0], fresh.shape[1] > 0, dtype.type(np.finfo(dtype).tiny), dtype.type(1)
    weights, down, by_before, by_log_start, before = np.empty((5, K), dtype)
    levels = np.empty((max(count, 1), T, K), dtype)
    for n in range(Index(first), Index(last)):
        down[:] = 0.0
        by_prob = grad_log_prob[n]
        for k in range(K):
            weights[k] = math.exp(log_weights[n, k])
        for back in range(T):
            t = T - ONE - back
            stop, stay = dtype.type(0), dtype.type(0)
            for k in range(K):
                down[k] += grad_path[n, t, k + ONE]
                by_before[k] = 0.0
                by_log_start[k] = 0.0
                before[k] = path[n, t - ONE, k + ONE] if t > ZERO else dtype.type(0)
                stop += stops[n, t, k]
                stay += stays[n, t, k]
            stop = one if t == ZERO else stop
            by_stop, by_stay = dtype.type(0), dtype.type(0)
            if noisy:
                for k in range(K):
                    down[k] += by_prob * log_message[n, t, k]
                b = path[n, t, ZERO]
                by_b = grad_path[n, t, ZERO] if t > ZERO else dtype.type(0)
                by_odds = _draw_backward(by_b, coldness, b, down, fresh[n, t], before, by_log_start, by_before)
                if t > ZERO:
                    by_stop += by_odds / stop if stop > floor else dtype.type(0)
                    by_stay -= by_odds / stay if stay > floor else dtype.type(0)
            elif t > ZERO:
                by_stop += grad_path[n, t, ZERO]
            for k in range(K):
                start = math.exp(log_starts[n, t, k])
                by_start = grad_starts[n, t, k] + by_prob * log_starts[n, t, k]
                by_start += -by_prob * log_message[n, t, k] if noisy else down[k]
                by_stop += by_start * start
                by_log_start[k] += (by_start + by_prob) * stop * start
            shift = dtype.type(0)
            for k in range(K):
                logit = stop_logits[n, t, k]
                small = exp_of(-abs(logit))
                low, high = small / (one + small), one / (one + small)
                leave, remain = (high, low) if logit > 0 else (low, high)
                log_high = math.log(one + small)
                for_stop = grad_stops[n, t, k] + by_stop + by_prob * (min(logit, dtype.type(0)) - log_high)
                for_stay = grad_stays[n, t, k] + by_stay + by_prob * (min(-logit, dtype.type(0)) - log_high)
                for_stay += -by_prob * log_message[n, t, k] if noisy else down[k]
                by_before[k] += for_stop * leave + for_stay * remain
                by_logit = before[k] * (for_stop - for_stay) * leave * remain
                shift += by_logit - by_log_start[k]
                grad_message[n, t, k] = by_log_start[k] - by_logit
            for k in range(K):
                start = math.exp(log_starts[n, t, k])
                grad_message[n, t, k] += shift * start
                if noisy:  # the message as a control variate
                    grad_message[n, t, k] -= by_prob * (stop * start + stays[n, t, k] - path[n, t, k + ONE])
                down[k] = by_before[k]
        if count > 0:
            _back_through_levels(weights, psi[n], likelihood[n], ahead[n], count, grad_message[n], levels)
