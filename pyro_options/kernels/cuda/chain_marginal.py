"""Triton twin of :mod:`pyro_options.kernels.chain_marginal`: float64 inside, faint sequences again in log space.

A program has one sequence. Its lanes are states, and pairs of states for the matrix of transitions, which stays in
registers.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .triton_math import Launch, bounded_exp, has_rows, lanes, load_wide, log_add, log_sigmoid, log_sum, sigmoids

_PAIRS_A_WARP = 64  # more and the compiler spills registers


def accepts(*tensors: Tensor) -> bool:
    """Up to 32 states: two matrices must fit into the registers of a program."""
    return tensors[0].shape[-1] <= 32


@triton.jit
def _log_sum_rows(x):
    """log of the sum of exp over the first axis."""
    high = tl.max(x, 0)
    safe = tl.where(high == float("-inf"), 0.0, high)
    return safe + tl.log(tl.sum(tl.exp(x - safe[None, :]), 0))


@triton.jit
def _log_sum_columns(x):
    """log of the sum of exp over the second axis."""
    high = tl.max(x, 1)
    safe = tl.where(high == float("-inf"), 0.0, high)
    return safe + tl.log(tl.sum(tl.exp(x - safe[:, None]), 1))


@triton.jit
def _forward(first, rows, logits, emission, alphas, arrivals, inside, k, K, T):
    """Filters one sequence. Returns its log marginal and the smallest prediction of each lane."""
    alpha = tl.zeros(first.shape, tl.float64)
    total = tl.full([], 0.0, tl.float64)
    faintest = tl.full(first.shape, 1.0, tl.float64)
    for t in range(T):
        e = load_wide(emission + t * K + k, inside, float("-inf"))
        best = tl.max(e, 0)
        likelihood = bounded_exp(e - best)
        leave, stay = sigmoids(load_wide(logits + t * K + k, inside, 0.0))
        arrived = tl.where(t == 0, first, tl.sum((leave * alpha)[:, None] * rows, 0))
        predicted = arrived + stay * alpha
        joint = predicted * likelihood
        scale = tl.sum(joint, 0)
        least_likely = tl.min(tl.where(inside, likelihood, 1.0), 0)
        fainter = tl.where(inside & (predicted < faintest), predicted, faintest)
        faintest = tl.where(least_likely < 1.0, fainter, faintest)  # else, as in padding, nothing is divided
        alpha = joint * (1 / scale)
        total += tl.log(scale) + best
        tl.store(alphas + t * K + k, alpha, mask=inside)
        tl.store(arrivals + t * K + k, arrived, mask=inside)
    return total, faintest


@triton.jit
def _backward(
    rows, logits, emission, alphas, arrivals, grad_first, grad_rows, grad_logits, grad_emission, starts,
    inside, pairs, pair, k, K, T, STARTS: tl.constexpr,
):  # fmt: skip
    """Gradients of one sequence. Returns the smallest backward message of each lane."""
    beta = tl.where(inside, tl.full(k.shape, 1.0, tl.float64), 0.0)
    faintest = tl.full(k.shape, 1.0, tl.float64)
    moves = tl.zeros(rows.shape, tl.float64)
    for back in range(T - 1):
        t = T - 1 - back
        e = load_wide(emission + t * K + k, inside, float("-inf"))
        leave, stay = sigmoids(load_wide(logits + t * K + k, inside, 0.0))
        before = load_wide(alphas + (t - 1) * K + k, inside, 0.0)
        arrived = load_wide(arrivals + t * K + k, inside, 0.0)
        ahead = beta * bounded_exp(e - tl.max(e, 0))
        ahead = ahead * (1 / tl.max(ahead, 0))
        inverse = 1 / tl.sum((arrived + stay * before) * ahead, 0)
        start = arrived * ahead * inverse
        kept = stay * before * inverse
        onward = tl.sum(rows * ahead[None, :], 1)
        moves += (leave * before * inverse)[:, None] * ahead[None, :]
        tl.store(grad_emission + t * K + k, start + kept * ahead, mask=inside)
        tl.store(grad_logits + t * K + k, kept * leave * (onward - ahead), mask=inside)
        if STARTS:
            tl.store(starts + t * K + k, start, mask=inside)
        beta = tl.where(inside, stay * ahead + leave * onward, 0.0)
        faintest = tl.where(inside & (beta < faintest), beta, faintest)
    e = load_wide(emission + k, inside, float("-inf"))
    ahead = load_wide(arrivals + k, inside, 0.0) * beta * bounded_exp(e - tl.max(e, 0))
    start = ahead / tl.sum(ahead, 0)
    tl.store(grad_first + k, start, mask=inside)
    tl.store(grad_emission + k, start, mask=inside)
    tl.store(grad_logits + k, tl.zeros(k.shape, tl.float64), mask=inside)
    if STARTS:
        tl.store(starts + k, start, mask=inside)
    tl.store(grad_rows + pair, moves * rows, mask=pairs)
    return faintest


@triton.jit
def _log_forward(log_first, log_rows, logits, emission, alphas, arrivals, inside, k, K, T):
    """As :func:`_forward`, in log space and not normalized."""
    alpha = tl.full(log_first.shape, float("-inf"), tl.float64)
    for t in range(T):
        x = load_wide(logits + t * K + k, inside, 0.0)
        left = log_sigmoid(x) + alpha
        arrived = tl.where(t == 0, log_first, _log_sum_rows(left[:, None] + log_rows))
        alpha = log_add(arrived, log_sigmoid(-x) + alpha) + load_wide(emission + t * K + k, inside, 0.0)
        tl.store(alphas + t * K + k, alpha, mask=inside)
        tl.store(arrivals + t * K + k, arrived, mask=inside)
    return log_sum(alpha)


@triton.jit
def _log_backward(
    value, log_rows, logits, emission, alphas, arrivals, grad_first, grad_rows, grad_logits, grad_emission, starts,
    inside, pairs, pair, k, K, T, STARTS: tl.constexpr,
):  # fmt: skip
    """As :func:`_backward`, in log space."""
    beta = tl.where(inside, tl.zeros(k.shape, tl.float64), float("-inf"))
    moves = tl.zeros(log_rows.shape, tl.float64)
    for back in range(T):
        t = T - 1 - back
        x = load_wide(logits + t * K + k, inside, 0.0)
        log_leave, log_stay = log_sigmoid(x), log_sigmoid(-x)
        earlier = load_wide(alphas + tl.maximum(t - 1, 0) * K + k, inside, float("-inf"))
        before = tl.where(t > 0, earlier, float("-inf"))
        ahead = beta + load_wide(emission + t * K + k, inside, 0.0)
        start = tl.exp(load_wide(arrivals + t * K + k, inside, float("-inf")) + ahead - value)
        onward = _log_sum_columns(log_rows + ahead[None, :])
        moves += tl.exp((before + log_leave - value)[:, None] + log_rows + ahead[None, :])
        kept = tl.exp(before + log_stay + ahead - value)
        left = tl.exp(before + log_leave + onward - value)
        tl.store(grad_emission + t * K + k, start + kept, mask=inside)
        tl.store(grad_logits + t * K + k, left * tl.exp(log_stay) - kept * tl.exp(log_leave), mask=inside)
        if STARTS:
            tl.store(starts + t * K + k, start, mask=inside)
        beta = tl.where(t > 0, log_add(log_stay + ahead, log_leave + onward), start)
    tl.store(grad_first + k, beta, mask=inside)
    tl.store(grad_rows + pair, moves, mask=pairs)


@triton.jit
def _marginal(
    log_first, log_rows, logits, emission, value, grad_first, grad_rows, grad_logits, grad_emission, starts,
    alphas, arrivals, T, K, GROUP, LANES: tl.constexpr, GRADIENTS: tl.constexpr, STARTS: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, LANES)
    inside = k < K
    pair = k[:, None] * K + k[None, :]
    pairs = inside[:, None] & inside[None, :]
    steps = n * T * K
    logits, emission, alphas, arrivals = logits + steps, emission + steps, alphas + steps, arrivals + steps
    grad_logits, grad_emission, starts = grad_logits + steps, grad_emission + steps, starts + steps
    grad_first, grad_rows = grad_first + n * K, grad_rows + n * K * K
    first = load_wide(log_first + n * K + k, inside, float("-inf"))
    rows = load_wide(log_rows + (n // GROUP) * K * K + pair, pairs, float("-inf"))
    total, faintest = _forward(tl.exp(first), tl.exp(rows), logits, emission, alphas, arrivals, inside, k, K, T)
    if GRADIENTS:
        tl.debug_barrier()
        behind = _backward(
            tl.exp(rows), logits, emission, alphas, arrivals, grad_first, grad_rows, grad_logits, grad_emission, starts,
            inside, pairs, pair, k, K, T, STARTS,
        )  # fmt: skip
        faintest = tl.where(behind < faintest, behind, faintest)
    if tl.min(faintest, 0) < 1e-280:
        tl.debug_barrier()
        total = _log_forward(first, rows, logits, emission, alphas, arrivals, inside, k, K, T)
        if GRADIENTS:
            tl.debug_barrier()
            _log_backward(
                total, rows, logits, emission, alphas, arrivals, grad_first, grad_rows, grad_logits, grad_emission,
                starts, inside, pairs, pair, k, K, T, STARTS,
            )  # fmt: skip
    tl.store(value + n, total)


def launch_log_marginal(inputs, outputs, settings) -> Launch:
    """``log_first``, ``log_rows``, ``logits``, ``emission`` to value, four gradients and starts."""
    N, T, K = inputs[3].shape
    wide = lanes(K)
    buffers = [torch.empty((N, T, K), dtype=torch.float64, device=inputs[3].device) for _ in range(2)]
    constants = {"LANES": wide, "GRADIENTS": has_rows(outputs[1]), "STARTS": has_rows(outputs[5])}
    arguments = *inputs, *outputs, *buffers, T, K, N // len(inputs[1])
    return Launch(_marginal, (N,), arguments, constants, max(1, wide * wide // _PAIRS_A_WARP))


def log_marginal(inputs, outputs, settings) -> None:
    """One launch for all sequences."""
    launch_log_marginal(inputs, outputs, settings)()
