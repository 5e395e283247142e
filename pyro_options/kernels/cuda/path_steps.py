"""Triton twin of :mod:`pyro_options.kernels.path_steps`: tiles of steps where they are independent, else a loop."""

import triton
import triton.language as tl
from torch import Tensor

from .triton_math import Launch, has_rows, lanes, log_sigmoid, sigmoid

_TILE = 16  # steps that are computed together


def accepts(*tensors: Tensor) -> bool:
    """Up to 64 options: a program holds some tiles of steps and options."""
    return tensors[-1].shape[-1] <= 64


@triton.jit
def _tile(start, T, K, TILE: tl.constexpr, LANES: tl.constexpr):
    """Offsets of a tile of steps, and which are inside."""
    t = start + tl.arange(0, TILE)[:, None]
    k = tl.arange(0, LANES)[None, :]
    return t, t * K + k, (t < T) & (k < K)


@triton.jit
def _exp_rows(x, inside):
    """exp of each row divided by its maximum; zero outside."""
    best = tl.max(tl.where(inside, x, float("-inf")), 1)[:, None]
    return tl.where(inside, tl.exp(x - best), 0.0)


@triton.jit
def _prepare(logits, emission, message, levels, likelihood, psi, T, K, TILE: tl.constexpr, LANES: tl.constexpr):
    for start in range(0, T, TILE):
        _, at, inside = _tile(start, T, K, TILE, LANES)
        tl.store(likelihood + at, _exp_rows(tl.load(emission + at, mask=inside, other=0.0), inside), mask=inside)
        tl.store(levels + at, _exp_rows(tl.load(message + at, mask=inside, other=0.0), inside), mask=inside)
        tl.store(psi + at, sigmoid(tl.load(logits + at, mask=inside, other=0.0)), mask=inside)


@triton.jit
def _through(weights, psi, likelihood, after, t, at, T, inside):
    """From the message after a step of each block to that before it; steps beyond the end change nothing."""
    real = inside & (t < T)
    ahead = tl.load(likelihood + at, mask=real, other=1.0) * after
    total = tl.sum(weights * ahead, 1)[:, None]
    mixed = ahead + tl.load(psi + at, mask=real, other=0.0) * (total - ahead)
    best = tl.max(tl.where(inside, mixed, 0.0), 1)[:, None]
    return tl.maximum(mixed * (1 / tl.maximum(best, 1e-30)), 1e-30)


@triton.jit
def _look_ahead(weights, psi, likelihood, levels, T, K, BLOCK: tl.constexpr, TILE: tl.constexpr, LANES: tl.constexpr):
    """The message of each step from the end of its own block, then from the end of the next one, in a tile of blocks.

    Blocks are independent of each other, so that the loop is over the steps of a block.
    """
    own, far = levels + T * K, levels + 2 * T * K
    k = tl.arange(0, LANES)[None, :]
    inside = k < K
    for start in range(0, T, TILE * BLOCK):
        first = start + BLOCK * tl.arange(0, TILE)[:, None]
        t = first + BLOCK - 1
        after = tl.load(levels + t * K + k, mask=inside & (t < T - 1), other=1.0)
        for _ in range(BLOCK):
            tl.store(own + t * K + k, after, mask=inside & (t < T))
            after = _through(weights, psi, likelihood, after, t, t * K + k, T, inside)
            t -= 1
        # what reaches the last step of the block before
        tl.store(far + t * K + k, after, mask=inside & (t >= 0) & (t < T - 1))
    tl.debug_barrier()
    for start in range(0, T, TILE * BLOCK):
        first = start + BLOCK * tl.arange(0, TILE)[:, None]
        t = first + BLOCK - 1
        after = tl.load(far + t * K + k, mask=inside & (t < T - 1), other=1.0)
        for _ in range(BLOCK):
            tl.store(far + t * K + k, after, mask=inside & (t < T))
            after = _through(weights, psi, likelihood, after, t, t * K + k, T, inside)
            t -= 1


@triton.jit
def _chain(
    log_weights, weights, logits, emission, likelihood, level, logs, log_starts, shares, stop_logits, log_stops, leave,
    T, K, TILE: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The distribution of each step given the previous one; the logarithm of the message is left in ``logs``."""
    for start in range(0, T, TILE):
        t, at, inside = _tile(start, T, K, TILE, LANES)
        e = tl.load(emission + at, mask=inside, other=float("-inf"))
        message = tl.load(level + at, mask=inside, other=1.0)
        share = weights * tl.load(likelihood + at, mask=inside, other=0.0) * tl.where(inside, message, 0.0)
        total = tl.maximum(tl.sum(share, 1), 1e-37)[:, None]
        best = tl.max(e, 1)[:, None]
        log_total = tl.log(total) + tl.where(t < T, best, 0.0)
        log_message = tl.where(message > 0, tl.log(tl.where(message > 0, message, 1.0)), -88.0)
        value = tl.where(inside, e, 0.0) + log_message
        stop_logit = tl.load(logits + at, mask=inside, other=0.0) + log_total - value
        tl.store(shares + at, share * (1 / total), mask=inside)
        tl.store(logs + at, log_message, mask=inside)
        tl.store(log_starts + at, log_weights + value - log_total, mask=inside)
        tl.store(stop_logits + at, stop_logit, mask=inside)
        tl.store(log_stops + at, log_sigmoid(stop_logit), mask=inside)
        tl.store(leave + at, sigmoid(stop_logit), mask=inside)


@triton.jit
def _new_options(log_starts, noise, cold, fresh, T, K, HARD: tl.constexpr, TILE: tl.constexpr, LANES: tl.constexpr):
    """Draws the new option of each step, should the previous one stop."""
    for start in range(0, T, TILE):
        t, at, inside = _tile(start, T, K, TILE, LANES)
        drawn = tl.load(log_starts + at, mask=inside, other=0.0) + tl.load(noise + at + t + 1, mask=inside, other=0.0)
        best = tl.max(tl.where(inside, drawn, float("-inf")), 1)[:, None]
        weight = tl.where(inside, tl.exp((drawn - best) * cold), 0.0)
        if HARD:
            option = tl.where(weight == tl.max(weight, 1)[:, None], 1.0, 0.0)
        else:
            option = weight * (1 / tl.maximum(tl.sum(weight, 1), 1e-37)[:, None])
        tl.store(fresh + at, option.to(weight.dtype), mask=inside)


@triton.jit
def _walk(
    noise, cold, path, log_prob, level, starts, stays, stops, log_starts, shares, stop_logits, log_stops, leave, fresh,
    tiny, T, K, HARD: tl.constexpr, NOISY: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The loop over the steps of one episode."""
    k = tl.arange(0, LANES)
    inside = k < K
    options = tl.load(leave + k, mask=inside, other=0.0) * 0
    total = tl.full([], 0.0, tl.float64)
    for t in range(T):
        at = t * K + k
        share, log_start = (
            tl.load(shares + at, mask=inside, other=0.0),
            tl.load(log_starts + at, mask=inside, other=0.0),
        )
        stop_logit = tl.load(stop_logits + at, mask=inside, other=0.0)
        stopped = options * tl.load(leave + at, mask=inside, other=0.0)
        stayed = options - stopped
        stop, stay = tl.sum(stopped, 0), tl.sum(stayed, 0)
        log_stop = tl.load(log_stops + at, mask=inside, other=0.0)
        part = stopped * log_stop + stayed * (log_stop - stop_logit)
        stop = tl.where(t == 0, 1.0, stop)
        start = stop * share
        part += start * log_start
        b = stop
        if NOISY:
            odds = tl.log(tl.maximum(stop, tiny)) - tl.log(tl.maximum(stay, tiny)) + tl.load(noise + t * (K + 1))
            if HARD:
                drawn = tl.where(odds > 0, 1.0, 0.0)
            else:
                drawn = sigmoid(odds * cold)
            b = tl.where(t == 0, 1.0, drawn).to(stop.dtype)
            new = options + b * (tl.load(fresh + at, mask=inside, other=0.0) - options)
            part -= (start + stayed - new) * tl.load(level + at, mask=inside, other=0.0)
            options = new
        else:
            options = start + stayed
        total += tl.sum(part, 0).to(tl.float64)
        tl.store(stops + at, stopped, mask=inside)
        tl.store(stays + at, stayed, mask=inside)
        tl.store(starts + at, start, mask=inside)
        tl.store(path + t * (K + 1), b)
        tl.store(path + t * (K + 1) + 1 + k, options, mask=inside)
    tl.store(log_prob, total)


@triton.jit
def _draw(
    log_weights, logits, emission, message, noise, coldness, path, log_prob, levels, starts, stays, stops, likelihood,
    psi, log_starts, shares, stop_logits, log_stops, leave, fresh, T, K, BLOCK: tl.constexpr, HARD: tl.constexpr,
    NOISY: tl.constexpr, TINY: tl.constexpr, TILE: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, LANES)
    row, steps, wide = n * K, n * T * K, n * T * (K + 1)
    given = tl.load(log_weights + row + k, mask=k < K, other=float("-inf"))
    weights = tl.exp(given)[None, :]
    log_weights = tl.where(k < K, given, 0.0)[None, :]
    cold = tl.load(coldness)
    levels += n * (3 if BLOCK else 1) * T * K
    logits, emission, message, likelihood, psi = (
        logits + steps,
        emission + steps,
        message + steps,
        likelihood + steps,
        psi + steps,
    )
    log_starts, shares, stop_logits = log_starts + steps, shares + steps, stop_logits + steps
    log_stops, leave = log_stops + steps, leave + steps
    _prepare(logits, emission, message, levels, likelihood, psi, T, K, TILE, LANES)
    level = levels
    if BLOCK:
        tl.debug_barrier()
        _look_ahead(weights, psi, likelihood, levels, T, K, BLOCK, TILE, LANES)
        level += 2 * T * K
    tl.debug_barrier()
    _chain(
        log_weights, weights, logits, emission, likelihood, level, levels, log_starts, shares, stop_logits, log_stops,
        leave, T, K, TILE, LANES,
    )  # fmt: skip
    if NOISY:
        tl.debug_barrier()
        fresh += steps
        noise += wide
        _new_options(log_starts, noise, cold, fresh, T, K, HARD, TILE, LANES)
    tl.debug_barrier()
    _walk(
        noise, cold, path + wide, log_prob + n, levels, starts + steps, stays + steps, stops + steps, log_starts,
        shares, stop_logits, log_stops, leave, fresh, TINY, T, K, HARD, NOISY, LANES,
    )  # fmt: skip


@triton.jit
def _walk_back(
    grad_path, by_prob, grad_starts, grad_stays, grad_stops, cold, path, stays, stops, log_starts, shares, stop_logits,
    log_stops, leave, fresh, grad, tiny, T, K, NOISY: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The loop back over the steps of one episode: the gradient of the message after looking ahead."""
    k = tl.arange(0, LANES)
    inside = k < K
    down = tl.load(leave + k, mask=inside, other=0.0) * 0
    for back in range(T):
        t = T - 1 - back
        at, now = t * K + k, t * (K + 1)
        later = tl.where(t > 0, 1.0, 0.0).to(down.dtype)
        down += tl.load(grad_path + now + 1 + k, mask=inside, other=0.0)
        share, left = tl.load(shares + at, mask=inside, other=0.0), tl.load(leave + at, mask=inside, other=0.0)
        stop = tl.sum(tl.load(stops + at, mask=inside, other=0.0), 0)
        stay = tl.sum(tl.load(stays + at, mask=inside, other=0.0), 0)
        stop = tl.where(t > 0, stop, 1.0)
        by_b = tl.load(grad_path + now) * later
        before = tl.load(path + tl.maximum(now - K - 1, 0) + 1 + k, mask=inside, other=0.0) * later
        by_log_start, by_before = down * 0, down * 0
        by_stop, by_stay = by_b * 0, by_b * 0
        if NOISY:
            b, new = tl.load(path + now), tl.load(fresh + at, mask=inside, other=0.0)
            by_before += (1 - b) * down
            by_log_start += b * new * (down - tl.sum(down * new, 0)) * cold
            by_odds = (by_b + tl.sum(down * (new - before), 0)) * b * (1 - b) * cold * later
            by_stop += tl.where(stop > tiny, by_odds / tl.maximum(stop, tiny), 0.0)
            by_stay -= tl.where(stay > tiny, by_odds / tl.maximum(stay, tiny), 0.0)
            down = down * 0  # only marginals contain starts and stays themselves
        else:
            by_stop += by_b
        by_start = tl.load(grad_starts + at, mask=inside, other=0.0) + down
        by_start += by_prob * tl.load(log_starts + at, mask=inside, other=0.0)
        by_stop += tl.sum(by_start * share, 0)
        by_log_start += (by_start + by_prob) * stop * share
        log_stop = tl.load(log_stops + at, mask=inside, other=0.0)
        stop_logit = tl.load(stop_logits + at, mask=inside, other=0.0)
        for_stay = tl.load(grad_stays + at, mask=inside, other=0.0) + by_stay + by_prob * (log_stop - stop_logit) + down
        more = tl.load(grad_stops + at, mask=inside, other=0.0) + by_stop + by_prob * log_stop - for_stay
        by_logit = before * more * left * (1 - left)
        shift = tl.sum(by_logit - by_log_start, 0)
        tl.store(grad + at, by_log_start - by_logit + shift * share, mask=inside)
        down = tl.where(inside, by_before + for_stay + more * left, 0.0)


@triton.jit
def _back_through(weights, psi, likelihood, level, grad, t, at, T, inside):
    """Takes the gradient of the message before a step of each block to that of the message after it."""
    real = inside & (t < T)
    x = tl.load(likelihood + at, mask=real, other=0.0) * tl.load(level + at, mask=real, other=0.0)
    stop = tl.load(psi + at, mask=real, other=0.0)
    total = tl.sum(weights * x, 1)[:, None]
    part = grad / tl.maximum(x + stop * (total - x), 1e-30)
    leaving = tl.sum(part * stop, 1)[:, None]
    return part * (1 - stop) * x + weights * x * leaving


@triton.jit
def _back_from_ahead(
    weights, psi, likelihood, levels, grad, scratch, T, K, BLOCK: tl.constexpr, TILE: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Takes the gradient of the messages after :func:`_look_ahead` to that of the given ones, in place."""
    own, far = levels + T * K, levels + 2 * T * K
    k = tl.arange(0, LANES)[None, :]
    inside = k < K
    for start in range(0, T, TILE * BLOCK):
        t = start + BLOCK * tl.arange(0, TILE)[:, None]
        down = tl.load(grad + t * K + k, mask=inside & (t < T), other=0.0)
        for _ in range(1, BLOCK):
            t += 1
            down = _back_through(weights, psi, likelihood, far, down, t, t * K + k, T, inside)
            down += tl.load(grad + t * K + k, mask=inside & (t < T), other=0.0)
        t += 1  # the first step of the next block: its message came from the end of that block
        down = _back_through(weights, psi, likelihood, own, down, t, t * K + k, T, inside)
        tl.store(scratch + t * K + k, down, mask=inside & (t < T))
    tl.debug_barrier()
    for start in range(0, T, TILE * BLOCK):
        t = start + BLOCK * tl.arange(0, TILE)[:, None]
        down = tl.load(scratch + t * K + k, mask=inside & (t < T) & (t > 0), other=0.0)
        for _ in range(1, BLOCK):
            tl.store(grad + t * K + k, down * 0, mask=inside & (t < T))
            t += 1
            down = _back_through(weights, psi, likelihood, own, down, t, t * K + k, T, inside)
        tl.store(grad + t * K + k, tl.where(t < T - 1, down, 0.0), mask=inside & (t < T))


@triton.jit
def _draw_backward(
    grad_path, grad_log_prob, grad_starts, grad_stays, grad_stops, log_weights, coldness, path, levels, stays, stops,
    likelihood, psi, log_starts, shares, stop_logits, log_stops, leave, fresh, grad_message, scratch, T, K,
    BLOCK: tl.constexpr, NOISY: tl.constexpr, TINY: tl.constexpr, TILE: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, LANES)
    steps, wide = n * T * K, n * T * (K + 1)
    weights = tl.exp(tl.load(log_weights + n * K + k, mask=k < K, other=float("-inf")))[None, :]
    grad_message += steps
    if NOISY:
        fresh += steps
    _walk_back(
        grad_path + wide, tl.load(grad_log_prob + n), grad_starts + steps, grad_stays + steps, grad_stops + steps,
        tl.load(coldness), path + wide, stays + steps, stops + steps, log_starts + steps, shares + steps,
        stop_logits + steps, log_stops + steps, leave + steps, fresh, grad_message, TINY, T, K, NOISY, LANES,
    )  # fmt: skip
    if BLOCK:
        tl.debug_barrier()
        _back_from_ahead(
            weights, psi + steps, likelihood + steps, levels + n * 3 * T * K, grad_message, scratch + steps, T, K,
            BLOCK, TILE, LANES,
        )  # fmt: skip


def _constants(T: int, K: int, lookahead: int, fresh: Tensor, path: Tensor) -> dict:
    tiny = 2.2250738585072014e-308 if path.element_size() == 8 else 1.1754943508222875e-38
    block = min(lookahead, T)  # a longer one would loop over steps that are not there
    return {"BLOCK": block, "NOISY": has_rows(fresh), "TINY": tiny, "TILE": _TILE, "LANES": lanes(K)}


def launch_draw(inputs, outputs, settings) -> Launch:
    """Evidence, message, noise and inverse temperature to a path and everything that its score and gradient need."""
    N, T, K = inputs[3].shape
    constants = _constants(T, K, settings[1], outputs[-1], outputs[0])
    return Launch(_draw, (N,), (*inputs, *outputs, T, K), {**constants, "HARD": int(settings[0])})


def draw(inputs, outputs, settings) -> None:
    """One launch for all episodes."""
    launch_draw(inputs, outputs, settings)()


def launch_draw_backward(inputs, outputs, settings) -> Launch:
    """Gradients and what :func:`draw` saved to the gradient of the message."""
    (grad_message,) = outputs
    N, T, K = grad_message.shape
    constants = _constants(T, K, settings[0], inputs[-1], inputs[7])
    return Launch(
        _draw_backward, (N,), (*inputs, grad_message, grad_message.new_empty(grad_message.shape), T, K), constants
    )


def draw_backward(inputs, outputs, settings) -> None:
    """One launch for all episodes."""
    launch_draw_backward(inputs, outputs, settings)()
