r"""Numba kernel: paths drawn from a chain that is built on a model's evidence, and the gradient of its message.

The same as :func:`~pyro_options.options.path_steps.look_ahead`, ``steps_given``, ``walk``, ``transitions_given`` and
``stepwise_log_prob`` together. Messages are multiplied out, not logarithms added, so a step ahead needs no exponential:

.. math:: X = e^{e_t + r_t}, \quad S = \langle\eta, X\rangle, \quad e^{r_{t-1}} = (1-\psi_t)\odot X + \psi_t S

Messages matter up to a factor: each is divided by its maximum. Shapes: ``log_weights (N, K)``; ``logits``, ``emission``,
``message``, ``starts``, ``stays``, ``stops`` ``(N, T, K)``; ``noise (N, T, K + 1)``, or ``(N, 0, 0)`` for the marginals of
the chain; ``path (N, T, K + 1)``; ``log_prob (N,)``. Saved for the backward pass, all ``(N, T, K)``: ``likelihood``
:math:`e^{e_t}`, ``psi``, ``ahead`` :math:`e^{r}` before looking ahead, ``log_starts``, ``shares``, their
exponential, ``stop_logits`` and ``fresh``, the relaxed draw of a new option. For the flat unsigned
indexing see :func:`~pyro_options.kernels.numba_math.add_product`.
"""

import math

import numba
import numpy as np

from .numba_math import LOOPS, ONE, ZERO, Index, exp_of


@numba.njit(**LOOPS)
def _exp_of_row(x, at, K, out, o):
    """exp of a row, divided by its maximum, and the logarithm of that maximum."""
    best = x[at]
    for k in range(K):
        best = x[at + k] if x[at + k] > best else best
    for k in range(K):
        out[o + k] = exp_of(x[at + k] - best)
    return best


@numba.njit(**LOOPS)
def _step_back(weights, psi, likelihood, at, message, m, out, o, K):
    """The message of step t - 1 from that of step t."""
    tiny, best, total = out.dtype.type(1e-30), out.dtype.type(0), out.dtype.type(0)
    for k in range(K):
        out[o + k] = likelihood[at + k] * message[m + k]
        total += weights[k] * out[o + k]
    for k in range(K):
        out[o + k] += psi[at + k] * (total - out[o + k])
        best = out[o + k] if out[o + k] > best else best
    scale = out.dtype.type(1) / max(best, tiny)
    for k in range(K):
        out[o + k] = max(out[o + k] * scale, tiny)


@numba.njit(**LOOPS)
def _chain(log_weights, weights, logits, emission, likelihood, level, top, log_starts, shares, stop_logits,
           row, at, place, K):  # fmt: skip
    """The distribution of one step from its message, of which the logarithm is left in ``level``.

    :param top: logarithm of the factor of the likelihood
    """
    total = shares.dtype.type(0)
    for k in range(K):
        shares[at + k] = weights[k] * likelihood[at + k] * level[place + k]
        total += shares[at + k]
    total = max(total, shares.dtype.type(1e-37))
    log_total, scale = math.log(total) + top, shares.dtype.type(1) / total
    for k in range(K):
        level[place + k] = math.log(level[place + k])
    for k in range(K):
        value = emission[at + k] + level[place + k]
        log_starts[at + k] = log_weights[row + k] + value - log_total
        stop_logits[at + k] = logits[at + k] + log_total - value
        shares[at + k] *= scale


@numba.njit(**LOOPS)
def _stops(logits, at, options, stops, stays, K):
    """Splits the previous options into those that stop and those that stay; returns the log q(b) that it averages."""
    one, zero = logits.dtype.type(1), logits.dtype.type(0)
    total = zero
    for k in range(K):
        logit = logits[at + k]
        small = exp_of(-abs(logit))
        high = one / (one + small)
        low = small * high
        stop, stay = (high, low) if logit > zero else (low, high)
        stops[at + k], stays[at + k] = options[k] * stop, options[k] * stay
        # log(1 - q) = log q - logit
        total += options[k] * (min(logit, zero) + math.log(high) - stay * logit)
    return total


@numba.njit(**LOOPS)
def _relax(log_starts, at, noise, now, log_odds, coldness, hard, fresh, K):
    """Draws a new option into ``fresh``, and returns b."""
    one, zero = coldness.dtype.type(1), coldness.dtype.type(0)
    best, place = log_starts[at] + noise[now + ONE], ZERO
    for k in range(K):
        value = log_starts[at + k] + noise[now + ONE + k]
        fresh[at + k] = value
        if value > best:
            best, place = value, k
    noisy = log_odds + noise[now]
    if hard:
        for k in range(K):
            fresh[at + k] = one if k == place else zero
        return one if noisy > zero else zero
    total = zero
    for k in range(K):
        fresh[at + k] = exp_of((fresh[at + k] - best) * coldness[0])
        total += fresh[at + k]
    scale = one / total
    for k in range(K):
        fresh[at + k] *= scale
    small = exp_of(-abs(noisy) * coldness[0])
    return (one if noisy > zero else small) / (one + small)


@numba.njit(**LOOPS)
def draw(
    first, last, log_weights, logits, emission, message, noise, coldness, flags,
    path, starts, stays, stops, log_prob, likelihood, psi, ahead, log_starts, shares, stop_logits, fresh,
):  # fmt: skip
    """Paths of episodes ``first`` to ``last - 1``; ``flags``: steps to look ahead, and whether paths are discrete."""
    T, K, dtype = Index(path.shape[1]), Index(logits.shape[2]), path.dtype
    count, hard, noisy = flags[0], flags[1] > 0, noise.shape[1] > 0
    one, zero, floor = dtype.type(1), dtype.type(0), dtype.type(np.finfo(dtype).tiny)
    weights, options, level, tops = np.empty(K, dtype), np.empty(K, dtype), np.empty(T * K, dtype), np.empty(T, dtype)
    log_weights, logits, emission, message = (
        log_weights.reshape(-1), logits.reshape(-1), emission.reshape(-1), message.reshape(-1)
    )  # fmt: skip
    noise, path, fresh, shares = noise.reshape(-1), path.reshape(-1), fresh.reshape(-1), shares.reshape(-1)
    starts, stays, stops, likelihood = starts.reshape(-1), stays.reshape(-1), stops.reshape(-1), likelihood.reshape(-1)
    psi, ahead, log_starts, stop_logits = psi.reshape(-1), ahead.reshape(-1), log_starts.reshape(-1), stop_logits.reshape(-1)
    for n in range(Index(first), Index(last)):
        row, begin = n * K, n * T * K
        for k in range(K):
            weights[k] = math.exp(log_weights[row + k])
            options[k] = zero
        for t in range(T):
            at = begin + t * K
            tops[t] = _exp_of_row(emission, at, K, likelihood, at)
            _exp_of_row(message, at, K, ahead, at)
        for i in range(T * K):
            small = exp_of(-abs(logits[begin + i]))
            psi[begin + i] = (one if logits[begin + i] > zero else small) / (one + small)
            level[i] = ahead[begin + i]
        for _ in range(count):
            for t in range(ONE, T):
                _step_back(weights, psi, likelihood, begin + t * K, level, t * K, level, (t - ONE) * K, K)
            for k in range(K):
                level[(T - ONE) * K + k] = one
        total = 0.0
        for t in range(T):
            at, now = begin + t * K, (n * T + t) * (K + ONE)
            _chain(
                log_weights, weights, logits, emission, likelihood, level, tops[t], log_starts, shares,
                stop_logits, row, at, t * K, K,
            )  # fmt: skip
            total += _stops(stop_logits, at, options, stops, stays, K)
            stop, stay = zero, zero
            for k in range(K):
                stop += stops[at + k]
                stay += stays[at + k]
            stop = one if t == ZERO else stop
            part = zero
            for k in range(K):
                starts[at + k] = stop * shares[at + k]
                part += starts[at + k] * log_starts[at + k]
            b = stop
            if noisy:
                log_odds = math.log(max(stop, floor)) - math.log(max(stay, floor))
                b = _relax(log_starts, at, noise, now, log_odds, coldness, hard, fresh, K)
                b = one if t == ZERO else b
                for k in range(K):
                    options[k] += b * (fresh[at + k] - options[k])
                    part -= (starts[at + k] + stays[at + k] - options[k]) * level[t * K + k]
            else:
                for k in range(K):
                    options[k] = starts[at + k] + stays[at + k]
            total += part
            path[now] = b
            for k in range(K):
                path[now + ONE + k] = options[k]
        log_prob[n] = total


@numba.njit(**LOOPS)
def _draw_backward(by_b, coldness, b, down, fresh, at, before, by_log_start, by_before, K):
    """Adds the gradients of a relaxed draw to those of its logits and of the previous options; returns that of b's."""
    one, mean = coldness.dtype.type(1), coldness.dtype.type(0)
    for k in range(K):
        by_b += down[k] * (fresh[at + k] - before[k])
        mean += down[k] * fresh[at + k]
        by_before[k] += (one - b) * down[k]
    for k in range(K):
        by_log_start[k] += b * fresh[at + k] * (down[k] - mean) * coldness[0]
    return by_b * b * (one - b) * coldness[0]


@numba.njit(**LOOPS)
def _back_through_levels(weights, psi, likelihood, ahead, begin, count, grad, levels, T, K):
    """Takes the gradient of the message after looking ahead to that of the message before, in place."""
    tiny, one, zero, size = grad.dtype.type(1e-30), grad.dtype.type(1), grad.dtype.type(0), T * K
    for i in range(size):
        levels[i] = ahead[begin + i]
    for level in range(ONE, count):
        here = level * size
        for t in range(ONE, T):
            below = here - size + t * K
            _step_back(weights, psi, likelihood, begin + t * K, levels, below, levels, here + (t - ONE) * K, K)
        for k in range(K):
            levels[here + (T - ONE) * K + k] = one
    for back in range(count):
        here = (count - ONE - back) * size
        for place in range(ONE, T):
            t = T - place
            at, m = begin + t * K, here + t * K
            total, leaving = zero, zero
            for k in range(K):
                total += weights[k] * likelihood[at + k] * levels[m + k]
            for k in range(K):
                x, stop = likelihood[at + k] * levels[m + k], psi[at + k]
                share = grad[at - K + k] / max(x + stop * (total - x), tiny)
                leaving += share * stop
                grad[at + k] = share * (one - stop) * x
            for k in range(K):
                grad[at + k] += weights[k] * likelihood[at + k] * levels[m + k] * leaving
        for k in range(K):
            grad[begin + k] = zero


@numba.njit(**LOOPS)
def draw_backward(
    first, last, grad_path, grad_starts, grad_stays, grad_stops, grad_log_prob, log_weights, coldness, flags, path,
    stays, stops, likelihood, psi, ahead, log_starts, shares, stop_logits, fresh, grad_message,
):  # fmt: skip
    """Fills the gradient of the message ``(N, T, K)``; ``fresh`` is ``(N, 0, 0)`` for marginals."""
    T, K, dtype = Index(path.shape[1]), Index(psi.shape[2]), path.dtype
    count, noisy = Index(flags[0]), fresh.shape[1] > 0
    one, zero, floor = dtype.type(1), dtype.type(0), dtype.type(np.finfo(dtype).tiny)
    weights, down, by_before, by_log_start, before = (
        np.empty(K, dtype), np.empty(K, dtype), np.empty(K, dtype), np.empty(K, dtype), np.empty(K, dtype)
    )  # fmt: skip
    levels = np.empty(max(count, ONE) * T * K, dtype)
    grad_path, grad_starts, grad_stays = grad_path.reshape(-1), grad_starts.reshape(-1), grad_stays.reshape(-1)
    grad_stops, log_weights, path, stays = grad_stops.reshape(-1), log_weights.reshape(-1), path.reshape(-1), stays.reshape(-1)
    stops, likelihood, psi, ahead = stops.reshape(-1), likelihood.reshape(-1), psi.reshape(-1), ahead.reshape(-1)
    log_starts, shares, stop_logits = log_starts.reshape(-1), shares.reshape(-1), stop_logits.reshape(-1)
    fresh, grad_message = fresh.reshape(-1), grad_message.reshape(-1)
    for n in range(Index(first), Index(last)):
        by_prob = grad_log_prob[n]
        for k in range(K):
            weights[k] = math.exp(log_weights[n * K + k])
            down[k] = zero
        for back in range(T):
            t = T - ONE - back
            at, now = (n * T + t) * K, (n * T + t) * (K + ONE)
            stop, stay = zero, zero
            for k in range(K):
                down[k] += grad_path[now + ONE + k]
                by_before[k] = zero
                by_log_start[k] = zero
                before[k] = zero
                stop += stops[at + k]
                stay += stays[at + k]
            by_b = zero
            if t > ZERO:
                by_b = grad_path[now]
                for k in range(K):
                    before[k] = path[now - K + k]
            else:
                stop = one
            by_stop, by_stay = zero, zero
            if noisy:
                by_odds = _draw_backward(by_b, coldness, path[now], down, fresh, at, before, by_log_start, by_before, K)
                if t > ZERO:
                    by_stop += by_odds / stop if stop > floor else zero
                    by_stay -= by_odds / stay if stay > floor else zero
                for k in range(K):  # starts and stays enter the next options as marginals only
                    down[k] = zero
            else:
                by_stop += by_b
            for k in range(K):
                by_start = grad_starts[at + k] + by_prob * log_starts[at + k] + down[k]
                by_stop += by_start * shares[at + k]
                by_log_start[k] += (by_start + by_prob) * stop * shares[at + k]
            shift = zero
            for k in range(K):
                logit = stop_logits[at + k]
                small = exp_of(-abs(logit))
                high = one / (one + small)
                low = small * high
                leave, remain = (high, low) if logit > zero else (low, high)
                log_stop = min(logit, zero) + math.log(high)
                for_stay = grad_stays[at + k] + by_stay + by_prob * (log_stop - logit) + down[k]
                more = grad_stops[at + k] + by_stop + by_prob * log_stop - for_stay
                by_before[k] += for_stay + more * leave
                by_logit = before[k] * more * leave * remain
                shift += by_logit - by_log_start[k]
                grad_message[at + k] = by_log_start[k] - by_logit
            for k in range(K):
                grad_message[at + k] += shift * shares[at + k]
                down[k] = by_before[k]
        if count > ZERO:
            _back_through_levels(weights, psi, likelihood, ahead, n * T * K, count, grad_message, levels, T, K)
