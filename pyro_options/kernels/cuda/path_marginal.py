"""Triton twin of :mod:`pyro_options.kernels.path_marginal`: float64 inside, faint episodes again in log space."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from .triton_math import Launch, bounded_exp, has_rows, lanes, load_wide, log_add, log_sigmoid, log_sum, sigmoids


def accepts(*tensors: Tensor) -> bool:
    """Up to 256 options fit into the registers of a program."""
    return tensors[0].shape[-1] <= 256


@triton.jit
def _forward(weights, logits, emission, on_steps, alphas, switches, inside, k, K, T):
    """Filters one episode. Returns its log marginal and the smallest prediction of each lane."""
    alpha = weights
    total = tl.full([], 0.0, tl.float64)
    faintest = tl.where(inside, weights, 1.0)
    for t in range(T):
        on = tl.load(on_steps + t) != 0
        first = t == 0
        e = load_wide(emission + t * K + k, inside, float("-inf"))
        best = tl.where(on, tl.max(e, 0), 0.0)
        likelihood = tl.where(on, bounded_exp(e - best), 1.0)
        stop, stay = sigmoids(load_wide(logits + t * K + k, inside, 0.0))
        mass = tl.where(first, 1.0, tl.sum(stop * alpha, 0))
        arrived = tl.where(first, weights, weights * mass + stay * alpha)
        joint = arrived * likelihood
        scale = tl.sum(joint, 0)
        counts = tl.where(first, True, on)
        fainter = tl.where(arrived < faintest, arrived, faintest)
        faintest = tl.where(inside & counts, fainter, faintest)
        alpha = tl.where(counts, joint * (1 / scale), alpha)
        total += tl.where(counts, tl.log(scale) + best, 0.0)
        tl.store(alphas + t * K + k, alpha, mask=inside)
        tl.store(switches + t, mass)
    return total, faintest


@triton.jit
def _backward(
    weights, logits, emission, on_steps, alphas, switches, grad_weights, grad_logits, grad_emission, starts,
    inside, k, K, T, STARTS: tl.constexpr,
):  # fmt: skip
    """Gradients of one episode. Returns the smallest backward message of each lane."""
    beta = tl.where(inside, tl.full(weights.shape, 1.0, tl.float64), 0.0)
    summed = tl.zeros(weights.shape, tl.float64)
    faintest = tl.full(weights.shape, 1.0, tl.float64)
    for back in range(T - 1):
        t = T - 1 - back
        on = tl.load(on_steps + t) != 0
        e = load_wide(emission + t * K + k, inside, float("-inf"))
        likelihood = tl.where(on, bounded_exp(e - tl.where(on, tl.max(e, 0), 0.0)), 1.0)
        stop, stay = sigmoids(load_wide(logits + t * K + k, inside, 0.0))
        before = load_wide(alphas + (t - 1) * K + k, inside, 0.0)
        switch = tl.load(switches + t)
        ahead = beta * likelihood
        ahead = ahead * (1 / tl.max(ahead, 0))
        restart = tl.sum(weights * ahead, 0)
        inverse = 1 / (switch * restart + tl.sum(stay * before * ahead, 0))
        start = weights * ahead * switch * inverse
        kept = stay * before * inverse
        summed += tl.where(on, start, 0.0)
        tl.store(grad_emission + t * K + k, tl.where(on, start + kept * ahead, 0.0), mask=inside)
        tl.store(grad_logits + t * K + k, tl.where(on, kept * stop * (restart - ahead), 0.0), mask=inside)
        if STARTS:
            tl.store(starts + t * K + k, tl.where(on, start, 0.0), mask=inside)
        message = tl.where(inside, stay * ahead + stop * restart, 0.0)
        beta = tl.where(on, message, beta)
        faintest = tl.where(inside & on & (message < faintest), message, faintest)
    on = tl.load(on_steps) != 0
    e = load_wide(emission + k, inside, float("-inf"))
    ahead = beta * tl.where(on, bounded_exp(e - tl.where(on, tl.max(e, 0), 0.0)), 1.0)
    start = weights * ahead / tl.sum(weights * ahead, 0)
    tl.store(grad_weights + k, summed + start, mask=inside)
    tl.store(grad_emission + k, tl.where(on, start, 0.0), mask=inside)
    tl.store(grad_logits + k, tl.zeros(weights.shape, tl.float64), mask=inside)
    if STARTS:
        tl.store(starts + k, tl.where(on, start, 0.0), mask=inside)
    return faintest


@triton.jit
def _log_forward(log_weights, logits, emission, on_steps, alphas, switches, inside, k, K, T):
    """As :func:`_forward`, in log space and not normalized."""
    alpha = log_weights
    for t in range(T):
        on = tl.load(on_steps + t) != 0
        x = load_wide(logits + t * K + k, inside, 0.0)
        log_stop = tl.where(on, log_sigmoid(x), float("-inf"))
        log_stay = tl.where(on, log_sigmoid(-x), 0.0)
        mass = tl.where(t == 0, 0.0, log_sum(log_stop + alpha))
        arrived = tl.where(t == 0, log_weights, log_add(log_weights + mass, log_stay + alpha))
        e = load_wide(emission + t * K + k, inside, float("-inf"))
        alpha = tl.where(inside, arrived + tl.where(on, e, 0.0), float("-inf"))
        tl.store(alphas + t * K + k, alpha, mask=inside)
        tl.store(switches + t, mass)
    return log_sum(alpha)


@triton.jit
def _log_backward(
    value, log_weights, logits, emission, on_steps, alphas, switches, grad_weights, grad_logits, grad_emission, starts,
    inside, k, K, T, STARTS: tl.constexpr,
):  # fmt: skip
    """As :func:`_backward`, in log space."""
    beta = tl.zeros(log_weights.shape, tl.float64)
    summed = tl.zeros(log_weights.shape, tl.float64)
    for back in range(T):
        t = T - 1 - back
        on = tl.load(on_steps + t) != 0
        later = tl.where(t > 0, 1.0, 0.0)
        e = load_wide(emission + t * K + k, inside, float("-inf"))
        x = load_wide(logits + t * K + k, inside, 0.0)
        before = load_wide(alphas + tl.maximum(t - 1, 0) * K + k, inside, float("-inf"))
        ahead = tl.where(inside, beta + tl.where(on, e, 0.0), float("-inf"))
        restart = log_sum(log_weights + ahead)
        start = tl.exp(log_weights + tl.load(switches + t) + ahead - value)
        log_stay, log_stop = log_sigmoid(-x), log_sigmoid(x)
        stay = tl.exp(before + log_stay + ahead - value) * later
        stop = tl.exp(before + log_stop + restart - value) * later
        by_logit = stop * tl.exp(log_stay) - stay * tl.exp(log_stop)
        summed += start
        tl.store(grad_emission + t * K + k, tl.where(on, start + stay, 0.0), mask=inside)
        tl.store(grad_logits + t * K + k, tl.where(on, by_logit, 0.0), mask=inside)
        if STARTS:
            tl.store(starts + t * K + k, tl.where(on, start, 0.0), mask=inside)
        beta = tl.where(on, log_add(log_stay + ahead, log_stop + restart), beta)
    tl.store(grad_weights + k, summed, mask=inside)


@triton.jit
def _marginal(
    log_weights, logits, emission, on_steps, value, grad_weights, grad_logits, grad_emission, starts, alphas, switches,
    T, K, LANES: tl.constexpr, GRADIENTS: tl.constexpr, STARTS: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, LANES)
    inside = k < K
    row, steps = n * K, n * T * K
    logits, emission, on_steps, alphas, switches = (
        logits + steps,
        emission + steps,
        on_steps + n * T,
        alphas + steps,
        switches + n * T,
    )
    grad_weights, grad_logits, grad_emission, starts = (
        grad_weights + row,
        grad_logits + steps,
        grad_emission + steps,
        starts + steps,
    )
    given = load_wide(log_weights + row + k, inside, float("-inf"))
    weights = tl.exp(given)
    total, faintest = _forward(weights, logits, emission, on_steps, alphas, switches, inside, k, K, T)
    if GRADIENTS:
        tl.debug_barrier()
        behind = _backward(
            weights, logits, emission, on_steps, alphas, switches, grad_weights, grad_logits, grad_emission, starts,
            inside, k, K, T, STARTS,
        )  # fmt: skip
        faintest = tl.where(behind < faintest, behind, faintest)
    if tl.min(faintest, 0) < 1e-280:
        tl.debug_barrier()
        total = _log_forward(given, logits, emission, on_steps, alphas, switches, inside, k, K, T)
        if GRADIENTS:
            tl.debug_barrier()
            _log_backward(
                total, given, logits, emission, on_steps, alphas, switches, grad_weights, grad_logits, grad_emission,
                starts, inside, k, K, T, STARTS,
            )  # fmt: skip
    tl.store(value + n, total)


def launch_log_marginal(inputs, outputs, settings) -> Launch:
    """``log_weights``, ``logits``, ``emission``, ``mask`` to value, three gradients and starts."""
    N, T, K = inputs[2].shape
    alphas = torch.empty((N, T, K), dtype=torch.float64, device=inputs[2].device)
    switches = torch.empty((N, T), dtype=torch.float64, device=inputs[2].device)
    log_weights, logits, emission, mask = inputs
    constants = {"LANES": lanes(K), "GRADIENTS": has_rows(outputs[1]), "STARTS": has_rows(outputs[4])}
    arguments = log_weights, logits, emission, mask.view(torch.uint8), *outputs, alphas, switches, T, K
    return Launch(_marginal, (N,), arguments, constants)


def log_marginal(inputs, outputs, settings) -> None:
    """One launch for all episodes."""
    launch_log_marginal(inputs, outputs, settings)()
