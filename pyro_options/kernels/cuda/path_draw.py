"""Triton twin of :mod:`pyro_options.kernels.path_draw`: the decoder of a step as products with weights in the cache."""

import triton
import triton.language as tl
from torch import Tensor

from .triton_math import Launch, lanes, sigmoid

_WARPS = 4


def accepts(*tensors: Tensor) -> bool:
    """Decoders with layers of up to 128 units and up to 63 options."""
    return max(max(layer.shape) for layer in tensors[1:]) <= 128


@triton.jit
def _rows(flat, row, column, rows, columns):
    """A matrix of ``flat`` as a tile."""
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    return tl.load(flat + row[:, None] * columns + column[None, :], mask=inside, other=0.0)


@triton.jit
def _hard(noisy, k, inside):
    """The discrete value of perturbed logits: b in lane 0, the best option, the first of several, in the others."""
    option = tl.where(inside & (k > 0), noisy, float("-inf"))
    best = tl.min(tl.where(option == tl.max(option, 0), k, 1 << 20), 0)
    return tl.where(k == 0, tl.where(noisy > 0, 1.0, 0.0), tl.where(k == best, 1.0, 0.0)).to(noisy.dtype)


@triton.jit
def _draw(
    context, noise, flat, coldness, hidden, logits, soft, path, T, SIZES: tl.constexpr, TOTAL: tl.constexpr,
    WIDTH: tl.constexpr, COUPLED: tl.constexpr, HARD: tl.constexpr, FIRST: tl.constexpr, LANES: tl.constexpr,
    UNITS: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0).to(tl.int64)
    k, i = tl.arange(0, LANES), tl.arange(0, UNITS)
    inside = k < WIDTH
    cold = tl.load(coldness)
    context += n * T * SIZES[0]
    noise += n * T * WIDTH
    hidden += n * T * TOTAL
    logits += n * T * WIDTH
    soft += n * T * WIDTH
    path += n * T * WIDTH
    previous = tl.load(noise + k, mask=inside, other=0.0) * 0
    for t in range(T):
        x = tl.load(context + t * SIZES[0] + i, mask=i < SIZES[0], other=0.0)
        x = tl.maximum(x + tl.sum(_rows(flat, k, i, WIDTH, SIZES[0]) * previous[:, None], 0), 0.0)
        tl.store(hidden + t * TOTAL + i, x, mask=i < SIZES[0])
        at = WIDTH * SIZES[0]
        place = SIZES[0]
        for layer in tl.static_range(1, len(SIZES)):
            product = tl.sum(_rows(flat + at, i, i, SIZES[layer - 1], SIZES[layer]) * x[:, None], 0)
            at += SIZES[layer - 1] * SIZES[layer]
            x = tl.maximum(product + tl.load(flat + at + i, mask=i < SIZES[layer], other=0.0), 0.0)
            tl.store(hidden + t * TOTAL + place + i, x, mask=i < SIZES[layer])
            at += SIZES[layer]
            place += SIZES[layer]
        heads = _rows(flat + at, k, i, WIDTH, SIZES[len(SIZES) - 1])
        value = tl.sum(heads * x[None, :], 1)
        value += tl.load(flat + at + WIDTH * SIZES[len(SIZES) - 1] + k, mask=inside, other=0.0)
        tl.store(logits + t * WIDTH + k, value, mask=inside)
        noisy = value + tl.load(noise + t * WIDTH + k, mask=inside, other=0.0)
        option = tl.where(inside & (k > 0), noisy, float("-inf"))
        weight = tl.exp((option - tl.max(option, 0)) * cold)
        relaxed = tl.where(k == 0, sigmoid(noisy * cold), weight / tl.sum(weight, 0))
        tl.store(soft + t * WIDTH + k, relaxed, mask=inside)
        if HARD:
            new = _hard(noisy, k, inside)
        else:
            new = relaxed
        b = tl.sum(tl.where(k == 0, new, 0.0), 0)
        kept = new
        if COUPLED:
            kept = tl.where(k == 0, new, previous + b * (new - previous))
        if FIRST:
            start = new
        else:
            start = tl.where(k == 0, 1.0, new).to(new.dtype)
        previous = tl.where(inside, tl.where(t == 0, start, kept), 0.0)
        tl.store(path + t * WIDTH + k, previous, mask=inside)


@triton.jit
def _draw_backward(
    grad_path, grad_logits, flat, coldness, hidden, logits, noise, soft, path, grad_noisy, grad_hidden, T,
    SIZES: tl.constexpr, TOTAL: tl.constexpr, WIDTH: tl.constexpr, COUPLED: tl.constexpr, HARD: tl.constexpr,
    FIRST: tl.constexpr, LANES: tl.constexpr, UNITS: tl.constexpr, WEIGHTS: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0).to(tl.int64)
    k, i = tl.arange(0, LANES), tl.arange(0, UNITS)
    inside = k < WIDTH
    cold = tl.load(coldness)
    grad_path += n * T * WIDTH
    grad_logits += n * T * WIDTH
    logits += n * T * WIDTH
    noise += n * T * WIDTH
    soft += n * T * WIDTH
    path += n * T * WIDTH
    grad_noisy += n * T * WIDTH
    hidden += n * T * TOTAL
    grad_hidden += n * T * TOTAL
    down = tl.load(soft + k, mask=inside, other=0.0) * 0
    for back in range(T):
        t = T - 1 - back
        now = t * WIDTH + k
        relaxed = tl.load(soft + now, mask=inside, other=0.0)
        new = relaxed
        if HARD:
            noisy = tl.load(logits + now, mask=inside, other=0.0) + tl.load(noise + now, mask=inside, other=0.0)
            new = tl.where(inside, _hard(noisy, k, inside), 0.0)
        down += tl.load(grad_path + now, mask=inside, other=0.0)
        later = tl.where(t > 0, 1.0, 0.0).to(down.dtype)
        kept = down * 0
        if COUPLED:
            before = tl.load(path + tl.maximum(t - 1, 0) * WIDTH + k, mask=inside, other=0.0)
            b = tl.sum(tl.where(k == 0, new, 0.0), 0)
            by_b = tl.sum(tl.where(k > 0, down * (new - before), 0.0), 0)
            kept = tl.where(k > 0, down * (1 - b), 0.0) * later
            coupled = tl.where(k == 0, down + by_b, down * b)
            down = tl.where(t > 0, coupled, down)
        if not FIRST:
            down = tl.where(k == 0, down * later, down)
        mean = tl.sum(tl.where(k > 0, down * relaxed, 0.0), 0)
        slope = tl.where(k == 0, down * (1 - relaxed), down - mean)
        by_noisy = tl.load(grad_logits + now, mask=inside, other=0.0) + relaxed * slope * cold
        by_noisy = tl.where(inside, by_noisy, 0.0)
        tl.store(grad_noisy + now, by_noisy, mask=inside)
        size: tl.constexpr = SIZES[len(SIZES) - 1]
        at = WEIGHTS - WIDTH * size
        place = TOTAL - size
        by_x = tl.sum(_rows(flat + at, k, i, WIDTH, size) * by_noisy[:, None], 0)
        on = tl.load(hidden + t * TOTAL + place + i, mask=i < size, other=0.0) > 0
        by_x = tl.where(on, by_x, 0.0)
        tl.store(grad_hidden + t * TOTAL + place + i, by_x, mask=i < size)
        for above in tl.static_range(1, len(SIZES)):
            layer: tl.constexpr = len(SIZES) - above
            at -= SIZES[layer] * SIZES[layer - 1]
            place -= SIZES[layer - 1]
            by_x = tl.sum(_rows(flat + at, i, i, SIZES[layer], SIZES[layer - 1]) * by_x[:, None], 0)
            on = tl.load(hidden + t * TOTAL + place + i, mask=i < SIZES[layer - 1], other=0.0) > 0
            by_x = tl.where(on, by_x, 0.0)
            tl.store(grad_hidden + t * TOTAL + place + i, by_x, mask=i < SIZES[layer - 1])
        down = kept + tl.sum(_rows(flat, k, i, WIDTH, SIZES[0]) * by_x[None, :], 1)


def _constants(width: int, settings) -> dict:
    coupled, hard, first, *sizes = (int(one) for one in settings)
    return {
        "SIZES": tuple(sizes), "TOTAL": sum(sizes), "WIDTH": width, "COUPLED": coupled, "HARD": hard, "FIRST": first,
        "LANES": lanes(width), "UNITS": lanes(max(sizes)),
    }  # fmt: skip


def launch_draw(inputs, outputs, settings) -> Launch:
    """Context, noise, flat weights and inverse temperature to hidden units, logits, relaxed values and paths."""
    N, T, width = outputs[-1].shape
    return Launch(_draw, (N,), (*inputs, *outputs, T), _constants(width, settings), _WARPS)


def draw(inputs, outputs, settings) -> None:
    """One launch for all episodes."""
    launch_draw(inputs, outputs, settings)()


def launch_draw_backward(inputs, outputs, settings) -> Launch:
    """Gradients and what :func:`draw` saved to the gradients of logits and of pre-activations."""
    N, T, width = outputs[0].shape
    constants = {**_constants(width, settings), "WEIGHTS": inputs[2].numel()}
    return Launch(_draw_backward, (N,), (*inputs, *outputs, T), constants, _WARPS)


def draw_backward(inputs, outputs, settings) -> None:
    """One launch for all episodes."""
    launch_draw_backward(inputs, outputs, settings)()
