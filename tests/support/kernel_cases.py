"""Calls of every kernel on random tensors, ragged and extreme ones too: what twins on other devices are compared on."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from pyro_options.distributions.markov import NEVER
from pyro_options.segments.boundaries import poisson_lengths


class Call(NamedTuple):
    """A call of a kernel, or of its backward pass on what an earlier call has saved."""

    kernel: str
    function: str
    inputs: tuple[Tensor, ...]
    outputs: list[Tensor]
    settings: tuple[int, ...] = ()
    #: outputs to compare; intermediate ones are compared through what is computed from them
    compared: slice = slice(None)

    @property
    def name(self) -> str:
        return f"{self.kernel}.{self.function}"


Run = Callable[[Call], None]


def _mask(N: int, T: int) -> Tensor:
    return torch.arange(T) < torch.randint(1, T + 1, (N, 1))


def path_marginal(run: Run, N: int, T: int, K: int, dtype: torch.dtype, extreme: bool) -> Iterator[Call]:
    """Weights and terminations at the extreme fall below the smallest float64."""
    far = 400 if extreme else 1
    log_weights = far * torch.randn(N, K, dtype=dtype).log_softmax(-1)
    logits, emission = 3 * far * torch.randn(N, T, K, dtype=dtype), 3 * torch.randn(N, T, K, dtype=dtype)
    outputs = [emission.new_zeros(shape) for shape in ((N,), (N, K), (N, T, K), (N, T, K), (N, T, K))]
    call = Call("path_marginal", "log_marginal", (log_weights, logits, emission, _mask(N, T)), outputs)
    run(call)
    yield call


def chain_marginal(run: Run, N: int, T: int, K: int, dtype: torch.dtype, extreme: bool) -> Iterator[Call]:
    """Rows of one group and of each sequence; transitions at the extreme fall below the smallest float64."""
    far, on = 400 if extreme else 1, _mask(N, T).unsqueeze(-1)
    for groups in (1, N):
        log_first, log_rows = (far * torch.randn(*s, K, dtype=dtype).log_softmax(-1) for s in ((N,), (groups, K)))
        logits = torch.where(on, 3 * far * torch.randn(N, T, K, dtype=dtype), NEVER)
        emission = torch.where(on, 3 * torch.randn(N, T, K, dtype=dtype), 0.0)
        sizes = (N,), (N, K), (N, K, K), *((N, T, K) for _ in range(3))
        outputs = [emission.new_zeros(size) for size in sizes]
        call = Call("chain_marginal", "log_marginal", (log_first, log_rows, logits, emission), outputs)
        run(call)
        yield call


def segment_marginal(run: Run, N: int, T: int, K: int, dtype: torch.dtype, extreme: bool) -> Iterator[Call]:
    """The extreme is as far as the compiled kernel goes; beyond, the caller computes in log space."""
    log_weights = torch.randn(N, K, dtype=dtype).log_softmax(-1)
    emission = (12 if extreme else 1) * torch.randn(N, T, K, dtype=dtype)
    chances = [chance.exp() for chance in poisson_lengths(3.0, T, torch.empty((), dtype=torch.float64))]
    outputs = [emission.new_zeros(shape) for shape in ((N,), (N, K), (N, T, K), (N, T, K))]
    inputs = log_weights, *chances, emission, _mask(N, T).sum(-1)
    call = Call("segment_marginal", "log_marginal", inputs, outputs, (4,))
    run(call)
    yield call


def stick_draw(run: Run, N: int, T: int, K: int, dtype: torch.dtype, extreme: bool) -> Iterator[Call]:
    """Concentrations from 1e-3 to 1e3 at the extreme."""
    spread = 7 if extreme else 1
    a, b = (torch.exp(spread * torch.empty(N * T * K, dtype=dtype).uniform_(-1, 1)) for _ in range(2))
    exponential = -torch.log(torch.rand(N * T * K, dtype=dtype).clamp(1e-30, 1 - 1e-7))
    call = Call("stick_draw", "draw", (exponential, a, b), [torch.zeros_like(a) for _ in range(7)])
    run(call)
    yield call


def lstm(run: Run, N: int, T: int, K: int, dtype: torch.dtype, extreme: bool) -> Iterator[Call]:
    """4 K + 1 hidden units."""
    H = 4 * K + 1
    weight = (3 if extreme else 1) * torch.randn(4 * H, H, dtype=dtype) / H**0.5
    gates, lengths = (20 if extreme else 1) * torch.randn(N, T, 4 * H, dtype=dtype), _mask(N, T).sum(-1)
    cells, hidden = gates.new_zeros((N, T, H)), gates.new_zeros((N, T, H))
    forward = Call("lstm", "forward", (gates, weight.t().contiguous(), lengths), [cells, hidden])
    run(forward)
    yield forward
    inputs = torch.randn(N, T, H, dtype=dtype), weight, lengths, gates, cells
    backward = Call("lstm", "backward", inputs, [torch.zeros_like(gates)])
    run(backward)
    yield backward


def path_draw(run: Run, N: int, T: int, K: int, dtype: torch.dtype, extreme: bool) -> Iterator[Call]:
    """Relaxed and discrete, coupled and not, with one layer and with two; options are certain at the extreme."""
    width = K + 1
    for sizes, flags in (([8], (1, 0, 0)), ([8, 5], (0, 0, 1)), ([8, 5], (1, 1, 0))):
        previous = torch.randn(sizes[0], width, dtype=dtype)
        middle = [(torch.randn(b, a, dtype=dtype) / a**0.5, torch.randn(b, dtype=dtype)) for a, b in pairwise(sizes)]
        heads, bias = torch.randn(width, sizes[-1], dtype=dtype) / sizes[-1] ** 0.5, torch.randn(width, dtype=dtype)
        pieces = [previous.t(), *(x for weight, bias in middle for x in (weight.t(), bias)), heads, bias]
        flat = torch.cat([x.reshape(-1) for x in pieces])
        context = torch.randn(N, T, sizes[0], dtype=dtype)
        noise = (30 if extreme else 1) * torch.randn(N, T, width, dtype=dtype)
        cold = torch.tensor([1.5], dtype=dtype)
        hidden, logits, soft, path = context.new_zeros((N, T, sum(sizes))), *(torch.zeros_like(noise) for _ in range(3))
        settings = (*flags, *sizes)
        draw = Call("path_draw", "draw", (context, noise, flat, cold), [hidden, logits, soft, path], settings)
        run(draw)
        yield draw
        backward_flat = torch.cat([x.reshape(-1) for x in (previous.t(), *(weight for weight, _ in middle), heads)])
        grads = torch.randn_like(path), torch.randn_like(path)
        inputs = *grads, backward_flat, cold, hidden, logits, noise, soft, path
        outputs = [torch.zeros_like(path), torch.zeros_like(hidden)]
        backward = Call("path_draw", "draw_backward", inputs, outputs, settings)
        run(backward)
        yield backward


def path_steps(run: Run, N: int, T: int, K: int, dtype: torch.dtype, extreme: bool) -> Iterator[Call]:
    """Relaxed, discrete and marginal, with and without looking ahead."""
    far = 10 if extreme else 1
    for noisy, hard, lookahead in ((True, 0, 4), (True, 1, 1), (True, 0, 2), (False, 0, 0), (False, 0, 3)):
        log_weights, message = torch.randn(N, K, dtype=dtype).log_softmax(-1), torch.randn(N, T, K, dtype=dtype)
        mask = _mask(N, T).unsqueeze(-1)
        logits = torch.where(mask, far * torch.randn(N, T, K, dtype=dtype), -1e4)
        emission = torch.where(mask, -far * torch.rand(N, T, K, dtype=dtype), 0.0)
        noise = torch.randn((N, T, K + 1) if noisy else (N, 0, 0), dtype=dtype)
        cold = torch.tensor([1.5], dtype=dtype)

        def new(*shape):
            return torch.zeros(shape, dtype=dtype)

        path, log_prob, levels = new(N, T, K + 1), new(N), new(N, 3 if lookahead else 1, T, K)
        starts, stays, stops, *saved = (new(N, T, K) for _ in range(10))
        fresh = new(*((N, T, K) if noisy else (N, 0, 0)))
        outputs = [path, log_prob, levels, starts, stays, stops, *saved, fresh]
        inputs = log_weights, logits, emission, message, noise, cold
        draw = Call("path_steps", "draw", inputs, outputs, (hard, lookahead), slice(0, 6))
        run(draw)
        yield draw
        grads = (torch.randn_like(x) for x in (path, log_prob, starts, stays, stops))
        inputs = *grads, log_weights, cold, path, levels, stays, stops, *saved, fresh
        backward = Call("path_steps", "draw_backward", inputs, [new(N, T, K)], (lookahead,))
        run(backward)
        yield backward


def log_choice(run: Run, N: int, T: int, K: int, dtype: torch.dtype, extreme: bool) -> Iterator[Call]:
    """Three actions, and so many that they do not fill the lanes of a program."""
    for actions in (3, 18):
        logits = (300 if extreme else 1) * torch.randn(N * T, K, actions, dtype=dtype)
        chosen = torch.randint(actions, (N * T,))
        probs = torch.zeros_like(logits)
        for saved in (logits.new_zeros(0, 0, 0), probs):
            forward = Call("log_choice", "forward", (logits, chosen), [logits.new_zeros(N * T, K), saved])
            run(forward)
            yield forward
        inputs = torch.randn(N * T, K, dtype=dtype), chosen, probs
        backward = Call("log_choice", "backward", inputs, [torch.zeros_like(logits)])
        run(backward)
        yield backward


_ALL = path_marginal, chain_marginal, path_draw, path_steps, lstm, segment_marginal, stick_draw, log_choice
CASES = {case.__name__: case for case in _ALL}

#: episodes, steps, options
SHAPES = ((2, 1, 1), (3, 5, 3), (2, 10, 6))
