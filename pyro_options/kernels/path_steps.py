r"""Numba kernel: paths drawn from a chain that is built on a model's evidence, and the gradient of its message.

The same as :func:`~pyro_options.options.path_steps.look_ahead`, ``steps_given``, ``walk``, ``transitions_given`` and
``stepwise_log_prob`` together. Messages are multiplied out, not logarithms added, so a step ahead needs no exponential:

.. math:: X = e^{e_t + r_t}, \quad S = \langle\eta, X\rangle, \quad e^{r_{t-1}} = (1-\psi_t)\odot X + \psi_t S

Messages matter up to a factor: each is divided by its maximum. Whatever does not depend on the path is computed for all
steps of an episode at once, in loops that vectorize.

Shapes: ``log_weights (N, K)``; ``logits``, ``emission``, ``message``, ``starts``, ``stays``, ``stops`` ``(N, T, K)``;
``noise (N, T, K + 1)``, or ``(N, 0, 0)`` for the marginals of the chain; ``path (N, T, K + 1)``; ``log_prob (N,)``.
Saved for the backward pass: ``levels (N, 3, T, K)``, the message r after looking ahead, and :math:`e^r` from the end of
each step's own block and of the next one, or ``(N, 1, T, K)``, r alone, without looking ahead; and ``(N, T, K)`` each:
``likelihood`` :math:`e^{e_t}`, ``psi``, ``log_starts`` and ``shares``, their exponential, ``stop_logits``, their
``log_stops`` and ``leave`` (log-sigmoid and sigmoid), and ``fresh``, the relaxed draw of a new option, or ``(N, 0, 0)``
for marginals. For the flat unsigned indexing see :func:`~pyro_options.kernels.numba_math.add_product`.
"""

import math

import numba
import numpy as np

from .numba_math import LOOPS, ONE, TWO, ZERO, Index, exp_of, log_of


@numba.njit(**LOOPS)
def _exp_rows(x, at, scale, T, K, out, o):
    """exp of T rows, divided by the maximum of each, to the power of ``scale``; may be in place."""
    for t in range(T):
        row = at + t * K
        best = x[row]
        for k in range(ONE, K):
            best = x[row + k] if x[row + k] > best else best
        for k in range(K):
            out[o + t * K + k] = (x[row + k] - best) * scale
    for i in range(T * K):
        out[o + i] = exp_of(out[o + i])


@numba.njit(**LOOPS)
def _sigmoids(x, at, size, out):
    one, zero = x.dtype.type(1), x.dtype.type(0)
    for i in range(at, at + size):
        small = exp_of(-abs(x[i]))
        out[i] = (one if x[i] > zero else small) / (one + small)


@numba.njit(**LOOPS)
def _log_sigmoids(x, at, size, out):
    one, zero = x.dtype.type(1), x.dtype.type(0)
    for i in range(at, at + size):
        out[i] = min(x[i], zero) - log_of(one + exp_of(-abs(x[i])))


@numba.njit(**LOOPS)
def _through(weights, psi, likelihood, at, levels, source, target, K):
    """From the message after the step at ``at`` to that before it."""
    one, zero, tiny = levels.dtype.type(1), levels.dtype.type(0), levels.dtype.type(1e-30)
    total, best = zero, zero
    for k in range(K):
        levels[target + k] = likelihood[at + k] * levels[source + k]
        total += weights[k] * levels[target + k]
    for k in range(K):
        levels[target + k] += psi[at + k] * (total - levels[target + k])
        best = max(best, levels[target + k])
    scale = one / max(best, tiny)
    for k in range(K):
        levels[target + k] = max(levels[target + k] * scale, tiny)


@numba.njit(**LOOPS)
def _look_ahead(weights, psi, likelihood, begin, levels, given, block, T, K):
    """The message of each step from the end of its own block, then from the end of the next one."""
    size = T * K
    own, far = given + size, given + TWO * size
    for k in range(K):
        levels[own + size - K + k] = levels.dtype.type(1)
        levels[far + size - K + k] = levels.dtype.type(1)
    for back in range(ONE, T):
        t = T - ONE - back
        at = (t + ONE) * K
        if (t + ONE) % block == ZERO:
            for k in range(K):
                levels[own + t * K + k] = levels[given + t * K + k]
        else:
            _through(weights, psi, likelihood, begin + at, levels, own + at, own + t * K, K)
    for back in range(ONE, T):
        t = T - ONE - back
        at = (t + ONE) * K
        source = (own if (t + ONE) % block == ZERO else far) + at
        _through(weights, psi, likelihood, begin + at, levels, source, far + t * K, K)


@numba.njit(**LOOPS)
def _chain(log_weights, weights, row, logits, emission, likelihood, begin, level, here, logs, log_starts, shares,
           stop_logits, T, K):  # fmt: skip
    """The distribution of each step given the previous one, from its message, whose logarithm is left at ``logs``."""
    one, zero, tiny = shares.dtype.type(1), shares.dtype.type(0), shares.dtype.type(1e-37)
    for t in range(T):
        at, m = begin + t * K, here + t * K
        total, best = zero, emission[at]
        for k in range(K):
            shares[at + k] = weights[k] * likelihood[at + k] * level[m + k]
            total += shares[at + k]
            best = max(best, emission[at + k])
        scale = one / max(total, tiny)
        for k in range(K):
            shares[at + k] *= scale
        stop_logits[at] = log_of(max(total, tiny)) + best
    for i in range(T * K):
        level[logs + i] = log_of(level[here + i])
    for t in range(T):
        at, m = begin + t * K, logs + t * K
        log_total = stop_logits[at]
        for k in range(K):
            value = emission[at + k] + level[m + k]
            log_starts[at + k] = log_weights[row + k] + value - log_total
            stop_logits[at + k] = logits[at + k] + log_total - value


@numba.njit(**LOOPS)
def _new_options(log_starts, begin, noise, now, coldness, hard, fresh, T, K):
    """Draws the new option of each step, should the previous one stop."""
    one, zero = coldness.dtype.type(1), coldness.dtype.type(0)
    for t in range(T):
        at, drawn = begin + t * K, now + t * (K + ONE) + ONE
        for k in range(K):
            fresh[at + k] = log_starts[at + k] + noise[drawn + k]
    _exp_rows(fresh, begin, coldness[0], T, K, fresh, begin)
    for t in range(T):
        at = begin + t * K
        total, best = zero, zero
        for k in range(K):
            total += fresh[at + k]
            best = max(best, fresh[at + k])
        scale = one / total
        for k in range(K):
            fresh[at + k] = (one if fresh[at + k] == best else zero) if hard else fresh[at + k] * scale


@numba.njit(**LOOPS)
def draw(
    first, last, log_weights, logits, emission, message, noise, coldness, settings,
    path, log_prob, levels, starts, stays, stops, likelihood, psi, log_starts, shares, stop_logits, log_stops, leave,
    fresh,
):  # fmt: skip
    """Paths of episodes ``first`` to ``last - 1``; ``settings``: whether paths are discrete, and the lookahead."""
    T, K, dtype, depth = Index(path.shape[1]), Index(logits.shape[2]), path.dtype, Index(levels.shape[1])
    hard, noisy, one, zero, floor = (
        settings[0] > 0, noise.shape[1] > 0, dtype.type(1), dtype.type(0), dtype.type(np.finfo(dtype).tiny)
    )  # fmt: skip
    weights, options = np.empty(K, dtype), np.empty(K, dtype)
    log_weights, logits, emission = log_weights.reshape(-1), logits.reshape(-1), emission.reshape(-1)
    message, noise, path, levels = message.reshape(-1), noise.reshape(-1), path.reshape(-1), levels.reshape(-1)
    starts, stays, stops, likelihood = starts.reshape(-1), stays.reshape(-1), stops.reshape(-1), likelihood.reshape(-1)
    psi, log_starts, shares, fresh = psi.reshape(-1), log_starts.reshape(-1), shares.reshape(-1), fresh.reshape(-1)
    stop_logits, log_stops, leave = stop_logits.reshape(-1), log_stops.reshape(-1), leave.reshape(-1)
    size = T * K
    for n in range(Index(first), Index(last)):
        row, begin, here, now = n * K, n * size, n * depth * size, n * T * (K + ONE)
        for k in range(K):
            weights[k] = math.exp(log_weights[row + k])
            options[k] = zero
        _exp_rows(emission, begin, one, T, K, likelihood, begin)
        _exp_rows(message, begin, one, T, K, levels, here)
        _sigmoids(logits, begin, size, psi)
        if depth > ONE:
            _look_ahead(weights, psi, likelihood, begin, levels, here, Index(settings[1]), T, K)
        _chain(
            log_weights, weights, row, logits, emission, likelihood, begin, levels, here + (depth - ONE) * size, here,
            log_starts, shares, stop_logits, T, K,
        )  # fmt: skip
        _log_sigmoids(stop_logits, begin, size, log_stops)
        _sigmoids(stop_logits, begin, size, leave)
        if noisy:
            _new_options(log_starts, begin, noise, now, coldness, hard, fresh, T, K)
        total = 0.0
        for t in range(T):
            at, m = begin + t * K, here + t * K
            stop, stay, part = zero, zero, zero
            for k in range(K):
                stops[at + k] = options[k] * leave[at + k]
                stays[at + k] = options[k] - stops[at + k]
                stop += stops[at + k]
                stay += stays[at + k]
                # log(1 - q) = log q - logit q, subtracted before it is weighed: in padded steps both are large
                part += stops[at + k] * log_stops[at + k] + stays[at + k] * (log_stops[at + k] - stop_logits[at + k])
            stop = one if t == ZERO else stop
            for k in range(K):
                starts[at + k] = stop * shares[at + k]
                part += starts[at + k] * log_starts[at + k]
            b = stop
            if noisy:
                if t > ZERO:
                    odds = log_of(max(stop, floor)) - log_of(max(stay, floor)) + noise[now]
                    small = zero if hard else exp_of(-abs(odds) * coldness[0])
                    b = (one if odds > zero else small) / (one + small)
                for k in range(K):
                    options[k] += b * (fresh[at + k] - options[k])
                    part -= (starts[at + k] + stays[at + k] - options[k]) * levels[m + k]
            else:
                for k in range(K):
                    options[k] = starts[at + k] + stays[at + k]
            total += part
            path[now] = b
            for k in range(K):
                path[now + ONE + k] = options[k]
            now += K + ONE
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
def _back_through(weights, psi, likelihood, at, levels, source, grad, K):
    """Takes the gradient of the message before the step at ``at`` to that of the message after it, in place."""
    tiny, one, zero = grad.dtype.type(1e-30), grad.dtype.type(1), grad.dtype.type(0)
    total, leaving = zero, zero
    for k in range(K):
        total += weights[k] * likelihood[at + k] * levels[source + k]
    for k in range(K):
        x, stop = likelihood[at + k] * levels[source + k], psi[at + k]
        share = grad[k] / max(x + stop * (total - x), tiny)
        leaving += share * stop
        grad[k] = share * (one - stop) * x
    for k in range(K):
        grad[k] += weights[k] * likelihood[at + k] * levels[source + k] * leaving


@numba.njit(**LOOPS)
def _back_from_ahead(weights, psi, likelihood, begin, levels, given, block, grad, by_far, by_own, T, K):
    """Takes the gradient of the messages after :func:`_look_ahead` to that of the given ones, in place."""
    zero, size = grad.dtype.type(0), T * K
    own, far = given + size, given + TWO * size
    for k in range(K):
        by_far[k] = zero
        by_own[k] = zero
    for t in range(T):
        at, is_end, is_start = t * K, (t + ONE) % block == ZERO, t % block == ZERO
        for k in range(K):
            if is_start:  # here the message of the step before came from that of its own block
                by_own[k] = by_far[k]
                by_far[k] = zero
            by_far[k] += grad[begin + at + k]
            grad[begin + at + k] = by_own[k] if is_end and t + ONE < T else zero
        if t + ONE < T:
            at += K
            _back_through(weights, psi, likelihood, begin + at, levels, (own if is_end else far) + at, by_far, K)
            if not is_end:
                _back_through(weights, psi, likelihood, begin + at, levels, own + at, by_own, K)


@numba.njit(**LOOPS)
def draw_backward(
    first, last, grad_path, grad_log_prob, grad_starts, grad_stays, grad_stops, log_weights, coldness, path, levels,
    stays, stops, likelihood, psi, log_starts, shares, stop_logits, log_stops, leave, fresh, settings, grad_message,
):  # fmt: skip
    """Fills the gradient of the message ``(N, T, K)``; ``settings``: the lookahead."""
    T, K, dtype, depth = Index(path.shape[1]), Index(psi.shape[2]), path.dtype, Index(levels.shape[1])
    noisy, one, zero, floor = fresh.shape[1] > 0, dtype.type(1), dtype.type(0), dtype.type(np.finfo(dtype).tiny)
    weights, down, by_before, by_log_start, before = (
        np.empty(K, dtype), np.empty(K, dtype), np.empty(K, dtype), np.empty(K, dtype), np.empty(K, dtype)
    )  # fmt: skip
    grad_path, grad_starts, grad_stays = grad_path.reshape(-1), grad_starts.reshape(-1), grad_stays.reshape(-1)
    grad_stops, log_weights, path, levels = (
        grad_stops.reshape(-1), log_weights.reshape(-1), path.reshape(-1), levels.reshape(-1)
    )  # fmt: skip
    stays, stops, likelihood, psi = stays.reshape(-1), stops.reshape(-1), likelihood.reshape(-1), psi.reshape(-1)
    log_starts, shares, stop_logits = log_starts.reshape(-1), shares.reshape(-1), stop_logits.reshape(-1)
    log_stops, leave, fresh, grad = (
        log_stops.reshape(-1),
        leave.reshape(-1),
        fresh.reshape(-1),
        grad_message.reshape(-1),
    )
    size = T * K
    for n in range(Index(first), Index(last)):
        by_prob, begin = grad_log_prob[n], n * size
        for k in range(K):
            weights[k] = math.exp(log_weights[n * K + k])
            down[k] = zero
        for back in range(T):
            t = T - ONE - back
            at, now = begin + t * K, (n * T + t) * (K + ONE)
            stop, stay, by_b = zero, zero, zero
            for k in range(K):
                down[k] += grad_path[now + ONE + k]
                by_before[k] = zero
                by_log_start[k] = zero
                before[k] = zero
                stop += stops[at + k]
                stay += stays[at + k]
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
                for k in range(K):  # only marginals contain starts and stays themselves
                    down[k] = zero
            else:
                by_stop += by_b
            for k in range(K):
                by_start = grad_starts[at + k] + by_prob * log_starts[at + k] + down[k]
                by_stop += by_start * shares[at + k]
                by_log_start[k] += (by_start + by_prob) * stop * shares[at + k]
            shift = zero
            for k in range(K):
                log_stop, stopped = log_stops[at + k], leave[at + k]
                for_stay = grad_stays[at + k] + by_stay + by_prob * (log_stop - stop_logits[at + k]) + down[k]
                more = grad_stops[at + k] + by_stop + by_prob * log_stop - for_stay
                by_before[k] += for_stay + more * stopped
                by_logit = before[k] * more * stopped * (one - stopped)
                shift += by_logit - by_log_start[k]
                grad[at + k] = by_log_start[k] - by_logit
            for k in range(K):
                grad[at + k] += shift * shares[at + k]
                down[k] = by_before[k]
        if depth > ONE:
            _back_from_ahead(
                weights, psi, likelihood, begin, levels, n * depth * size, Index(settings[0]), grad, by_before, down,
                T, K,
            )  # fmt: skip
