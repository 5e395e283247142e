"""Numba kernels that choose one path of an episode given its actions: the best one, or one drawn from the posterior.

They compute in float64 what :mod:`~pyro_options.options.recursion` does. Episodes in which a probability falls below
``FAINT`` relative to others are left to the caller, which does them in log space. Shapes are those of
:mod:`~pyro_options.kernels.path_marginal`.
"""

import math

import numba
import numpy as np

from .numba_math import PLAIN
from .path_marginal import FAINT, forward, probabilities


@numba.njit(**PLAIN)
def _best(weights, likelihood, stop, stay, mask, back, score, options):
    """The best option sequence of one episode. Returns its log-probability and the smallest score of an option.

    Scores are divided by the largest one of their step. Continuing and terminating into the same option give the same
    sequence: their probabilities add.
    """
    T, K = likelihood.shape
    total, product, faintest = 0.0, 1.0, 1.0
    for t in range(T):
        leave, source, largest = -1.0, 0, 0.0
        if t > 0 and not mask[t]:
            for k in range(K):
                back[t, k] = k
            continue
        for k in range(K if t > 0 else 0):
            left = score[k] * stop[t, k]
            if left > leave:
                leave, source = left, k
        for k in range(K):
            if t == 0:
                best = weights[k]
            else:
                keep, move = score[k] * (stay[t, k] + stop[t, k] * weights[k]), leave * weights[k]
                back[t, k] = k if keep >= move else source
                best = keep if keep >= move else move
            score[k] = best * likelihood[t, k]
            largest = score[k] if score[k] > largest else largest
        for k in range(K):
            score[k] /= largest
            faintest = score[k] if score[k] < faintest else faintest
        product *= largest
        if not 1e-20 < product < 1e20:
            total += math.log(product)
            product = 1.0
    option = 0
    for k in range(1, K):
        option = k if score[k] > score[option] else option
    for t in range(T - 1, -1, -1):
        options[t] = option
        option = back[t, option] if t > 0 else option
    return total + math.log(product), faintest


@numba.njit(**PLAIN)
def best_path(first, last, log_weights, logits, emission, mask, options, log_prob, exact):
    """Best sequences ``options (N, T)`` and log-probabilities ``(N,)`` of episodes ``first`` to ``last - 1``.

    ``exact (N,)`` says of which: not where an option falls below ``FAINT`` relative to the best.
    """
    T, K = emission.shape[1:]
    likelihood, stop, stay, scratch = np.empty((T, K)), np.empty((T, K)), np.empty((T, K)), np.empty(T * K)
    weights, score, back = np.empty(K), np.empty(K), np.empty((T, K), np.int32)
    for n in range(first, last):
        for k in range(K):
            weights[k] = math.exp(np.float64(log_weights[n, k]))
        divided = probabilities(logits[n], emission[n], mask[n], likelihood, stop, stay, scratch)
        found, faintest = _best(weights, likelihood, stop, stay, mask[n], back, score, options[n])
        log_prob[n] = found + divided
        exact[n] = faintest > FAINT and math.isfinite(log_prob[n])


@numba.njit(**PLAIN)
def _draw(weights, likelihood, stop, mask, predicted, stayed, inverse, switch, uniform, options, terminations):
    """Draws the path of one episode backwards, with one uniform number a step, after the forward recursion."""
    T, K = likelihood.shape
    step = T - 1  # the last one, at or before t, that exists
    while step > 0 and not mask[step]:
        step -= 1
    rest, option = uniform[T - 1], 0
    for k in range(K):
        share = predicted[step, k] * likelihood[step, k] * inverse[step]
        option = k if share > 0.0 else option  # rounding may leave something after all of them
        rest -= share
        if rest < 0.0:
            break
    for t in range(T - 1, 0, -1):
        options[t], terminations[t] = option, 0
        if not mask[t]:
            continue
        step = t - 1
        while step > 0 and not mask[step]:
            step -= 1
        rest = uniform[t - 1] * predicted[t, option] - stayed[t, option]
        if rest < 0.0:
            continue
        terminations[t] = 1
        rest, last = rest / weights[option], 0  # of switch[t], the probability that any option terminates
        for k in range(K):
            share = predicted[step, k] * likelihood[step, k] * inverse[step] * stop[t, k]
            last = k if share > 0.0 else last
            rest -= share
            if rest < 0.0:
                break
        option = last
    options[0], terminations[0] = option, 1


@numba.njit(**PLAIN)
def draw_path(first, last, log_weights, logits, emission, mask, uniform, options, terminations, exact):
    """Options and terminations ``(N, T)`` drawn from their posterior, of episodes ``first`` to ``last - 1``.

    ``uniform (N, T)`` are random numbers in [0, 1); ``exact (N,)`` says which episodes were drawn.
    """
    T, K = emission.shape[1:]
    likelihood, stop, stay, scratch = np.empty((T, K)), np.empty((T, K)), np.empty((T, K)), np.empty(T * K)
    predicted, stayed, switch, inverse = np.empty((T, K)), np.empty((T, K)), np.empty(T), np.empty(T)
    weights, raw, least = np.empty(K), np.empty(K), np.empty(K)
    for n in range(first, last):
        for k in range(K):
            weights[k] = math.exp(np.float64(log_weights[n, k]))
        probabilities(logits[n], emission[n], mask[n], likelihood, stop, stay, scratch)
        total, faintest = forward(
            weights, likelihood, stop, stay, mask[n], predicted, stayed, inverse, switch, raw, least
        )
        exact[n] = faintest > FAINT and math.isfinite(total)
        if exact[n]:
            _draw(
                weights, likelihood, stop, mask[n], predicted, stayed, inverse, switch,
                uniform[n], options[n], terminations[n],
            )  # fmt: skip
