"""Triton twin of :mod:`pyro_options.kernels.segment_marginal`, in log space: no episode is too improbable for it.

Lanes are positions of an episode, at which segments begin or end. Prefix sums of the emissions give the evidence of any
segment, so there is no table of all of them. Gradients come from the expected numbers of segments that begin and end at
each position: the emission of step t matters to those that have begun by t and not ended.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .triton_math import Launch, has_rows, lanes, log_add, log_sum

_LANES_A_WARP = 128  # fewer or more and the compiler spills registers


def accepts(*tensors: Tensor) -> bool:
    """Episodes of up to 2047 steps, one lane each."""
    return tensors[1].shape[-2] <= 2047


@triton.jit
def _prefix_sums(emission, sums, end, K, LANES: tl.constexpr):
    """``sums[u, k]``, the emissions of skill k before step u."""
    place = tl.arange(0, LANES)
    for k in range(K):
        inside = (place > 0) & (place <= end)
        step = tl.load(emission + tl.maximum(place - 1, 0) * K + k, mask=inside, other=0.0).to(tl.float64)
        tl.store(sums + place * K + k, tl.cumsum(step, 0), mask=place <= end)


@triton.jit
def _log_evidence(log_weights, sums, first, last, K, inside):
    """log p(actions from ``first`` to ``last - 1`` as one segment), its skill summed out; one of the two has lanes."""
    high = tl.where(inside, float("-inf"), 0.0).to(tl.float64)
    for k in range(K):
        weight = tl.load(log_weights + k).to(tl.float64)
        span = tl.load(sums + last * K + k, mask=inside, other=0.0) - tl.load(
            sums + first * K + k, mask=inside, other=0.0
        )
        high = tl.maximum(high, tl.where(inside, weight + span, 0.0))
    total = high * 0
    for k in range(K):
        weight = tl.load(log_weights + k).to(tl.float64)
        span = tl.load(sums + last * K + k, mask=inside, other=0.0) - tl.load(
            sums + first * K + k, mask=inside, other=0.0
        )
        total += tl.exp(weight + span - high)
    return high + tl.log(total)


@triton.jit
def _log_chance(exactly, at_least, first, last, end, inside):
    """log of the probability that a segment which begins at ``first`` ends at ``last``."""
    length = tl.where(inside, last - first, 0)
    exact, rest = tl.load(exactly + length), tl.load(at_least + length)
    chance = tl.where(last == end, rest, exact)
    return tl.where(inside & (chance > 0), tl.log(tl.where(chance > 0, chance, 1.0)), float("-inf"))


@triton.jit
def _forward(log_weights, exactly, at_least, sums, alpha, end, K, M, LANES: tl.constexpr):
    """``alpha[j, u]``, log p(actions before u, segment j ends at u). Returns the log marginal."""
    place = tl.arange(0, LANES)
    width = LANES
    for u in range(end + 1):
        earlier = place < u
        reach = _log_evidence(log_weights, sums, place, place * 0 + u, K, earlier)
        reach += _log_chance(exactly, at_least, place, place * 0 + u, end, earlier)
        empty = tl.max(_log_evidence(log_weights, sums, place * 0 + u, place * 0 + u, K, place == 0), 0)
        here = place == u
        empty = tl.max(
            tl.where(here, _log_chance(exactly, at_least, place, place, end, here) + empty, float("-inf")), 0
        )
        last = tl.where(u == 0, 0.0, float("-inf")).to(tl.float64)
        tl.store(alpha + u, last)
        for j in range(1, M):
            before = tl.load(alpha + (j - 1) * width + place, mask=earlier, other=float("-inf"))
            last = log_add(log_sum(tl.where(earlier, before + reach, float("-inf"))), last + empty)
            tl.store(alpha + j * width + u, last)
        tl.debug_barrier()
    inside = place <= end
    final = tl.load(alpha + (M - 1) * width + place, mask=inside, other=float("-inf"))
    evidence = _log_evidence(log_weights, sums, place, place * 0 + end, K, inside)
    return log_sum(tl.where(inside, final + evidence, float("-inf")))


@triton.jit
def _backward(log_weights, exactly, at_least, sums, beta, end, K, M, LANES: tl.constexpr):
    """``beta[j, s]``, log p(actions from s on | segment j ends at s)."""
    place = tl.arange(0, LANES)
    width = LANES
    inside = place <= end
    evidence = _log_evidence(log_weights, sums, place, place * 0 + end, K, inside)
    tl.store(beta + (M - 1) * width + place, evidence, mask=inside)
    tl.debug_barrier()
    for back in range(end + 1):
        s = end - back
        later = inside & (place > s)
        reach = _log_evidence(log_weights, sums, place * 0 + s, place, K, later)
        reach += _log_chance(exactly, at_least, place * 0 + s, place, end, later)
        empty = tl.max(_log_evidence(log_weights, sums, place * 0 + s, place * 0 + s, K, place == 0), 0)
        here = place == s
        empty = tl.max(
            tl.where(here, _log_chance(exactly, at_least, place, place, end, here) + empty, float("-inf")), 0
        )
        last = tl.load(beta + (M - 1) * width + s)
        for down in range(1, M):
            j = M - 1 - down
            after = tl.load(beta + (j + 1) * width + place, mask=later, other=float("-inf"))
            last = log_add(log_sum(tl.where(later, after + reach, float("-inf"))), last + empty)
            tl.store(beta + j * width + s, last)
        tl.debug_barrier()


@triton.jit
def _expectations(
    value, log_weights, exactly, at_least, sums, alpha, beta, began, ended, drawn, end, K, M, LANES: tl.constexpr
):
    """Expected numbers of segments of each skill that begin and end at each position, and that are drawn at all."""
    place = tl.arange(0, LANES)
    width = LANES
    inside = place <= end
    for s in range(end + 1):
        known = inside & (place >= s)
        expected = tl.full([LANES], float("-inf"), tl.float64)
        for j in range(1, M):
            before = tl.load(alpha + (j - 1) * width + s)
            after = tl.load(beta + j * width + place, mask=known, other=float("-inf"))
            expected = log_add(expected, before + after)
        expected += _log_chance(exactly, at_least, place * 0 + s, place, end, known)
        last = tl.load(alpha + (M - 1) * width + s)
        expected = tl.where(place == end, log_add(expected, last + tl.zeros([LANES], tl.float64)), expected)
        for k in range(K):
            weight = tl.load(log_weights + k).to(tl.float64)
            span = tl.load(sums + place * K + k, mask=known, other=0.0) - tl.load(sums + s * K + k)
            count = tl.where(known, tl.exp(expected + weight + span - value), 0.0)
            longer = tl.where(place > s, count, 0.0)
            tl.store(began + s * K + k, tl.sum(longer, 0))
            tl.store(drawn + s * K + k, tl.sum(count, 0))
            finished = tl.load(ended + place * K + k, mask=known, other=0.0)
            tl.store(ended + place * K + k, finished + longer, mask=known)


@triton.jit
def _marginal(
    log_weights, exactly, at_least, emission, lengths, value, grad_weights, grad_emission, starts, sums, alpha, beta,
    began, ended, drawn, T, K, M, LANES: tl.constexpr, GRADIENTS: tl.constexpr, STARTS: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, LANES)
    end = tl.load(lengths + n).to(tl.int32)
    log_weights += n * K
    emission += n * T * K
    table = n * (T + 1) * K
    sums += table
    alpha += n * M * LANES
    _prefix_sums(emission, sums, end, K, LANES)
    tl.debug_barrier()
    total = _forward(log_weights, exactly, at_least, sums, alpha, end, K, M, LANES)
    tl.store(value + n, total)
    if GRADIENTS:
        beta += n * M * LANES
        began, ended, drawn = began + table, ended + table, drawn + table
        _backward(log_weights, exactly, at_least, sums, beta, end, K, M, LANES)
        for k in range(K):
            tl.store(ended + place * K + k, tl.zeros([LANES], tl.float64), mask=place <= end)
        _expectations(total, log_weights, exactly, at_least, sums, alpha, beta, began, ended, drawn, end, K, M, LANES)
        tl.debug_barrier()
        for k in range(K):
            inside = place <= end
            step = place < end
            start = tl.load(began + place * K + k, mask=inside, other=0.0)
            active = tl.cumsum(start - tl.load(ended + place * K + k, mask=inside, other=0.0), 0)
            tl.store(grad_weights + n * K + k, tl.sum(tl.load(drawn + place * K + k, mask=inside, other=0.0), 0))
            tl.store(grad_emission + n * T * K + place * K + k, tl.where(step, active, 0.0), mask=place < T)
            if STARTS:
                tl.store(starts + n * T * K + place * K + k, tl.where(step, start, 0.0), mask=place < T)


def launch_log_marginal(inputs, outputs, settings) -> Launch:
    """``log_weights``, ``exactly``, ``at_least``, ``emission``, ``lengths`` to value, two gradients and starts."""
    emission, (M,) = inputs[3], settings
    N, T, K = emission.shape
    wide = lanes(T + 1)
    gradients = has_rows(outputs[1])

    def scratch(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.float64, device=emission.device)

    tables = [scratch(N * gradients, T + 1, K) for _ in range(3)]
    buffers = scratch(N, T + 1, K), scratch(N, M, wide), scratch(N * gradients, M, wide), *tables
    constants = {"LANES": wide, "GRADIENTS": gradients, "STARTS": has_rows(outputs[3])}
    return Launch(
        _marginal, (N,), (*inputs, *outputs, *buffers, T, K, int(M)), constants, max(1, wide // _LANES_A_WARP)
    )


def log_marginal(inputs, outputs, settings) -> None:
    """One launch for all episodes."""
    launch_log_marginal(inputs, outputs, settings)()
