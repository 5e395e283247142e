"""Functions that the Triton kernels share. Everything is written with what the interpreter has: exp, log and sums."""

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor


class Launch(NamedTuple):
    """One launch of a Triton kernel."""

    kernel: triton.JITFunction
    grid: tuple[int, ...]
    arguments: tuple
    constants: dict[str, int]
    num_warps: int = 1

    def __call__(self) -> None:
        self.kernel[self.grid](*self.arguments, **self.constants, num_warps=self.num_warps)


def lanes(count: int) -> int:
    """The smallest power of two that holds ``count`` entries."""
    return triton.next_power_of_2(count)


def has_rows(tensor: Tensor) -> int:
    """Whether an output is wanted: those that are not have no rows."""
    return int(tensor.numel() > 0)


@triton.jit
def sigmoid(x):
    small = tl.exp(-tl.abs(x))
    return tl.where(x > 0, 1 / (1 + small), small / (1 + small))


@triton.jit
def sigmoids(x):
    """The sigmoids of x and of -x, neither of which rounds to one minus the other."""
    small = tl.exp(-tl.abs(x))
    large = 1 / (1 + small)
    small = small * large
    return tl.where(x > 0, large, small), tl.where(x > 0, small, large)


@triton.jit
def log_sigmoid(x):
    return tl.minimum(x, 0.0) - tl.log(1 + tl.exp(-tl.abs(x)))


@triton.jit
def tanh(x):
    small = tl.exp(-2 * tl.abs(x))
    value = (1 - small) / (1 + small)
    return tl.where(x > 0, value, -value)


@triton.jit
def load_wide(pointer, inside, other):
    """The numbers at ``pointer`` in float64, and ``other`` in lanes outside."""
    return tl.load(pointer, mask=inside, other=other).to(tl.float64)


@triton.jit
def expm1(x):
    """exp(x) - 1 in float64, to 1e-11 of itself."""
    series = x * (1 + x * (0.5 + x * (1 / 6)))
    return tl.where(tl.abs(x) < 1e-5, series, tl.exp(x) - 1)


@triton.jit
def log1p(x):
    """log(1 + x) in float64, to 1e-11 of itself."""
    series = x * (1 - x * (0.5 - x * (1 / 3)))
    return tl.where(tl.abs(x) < 1e-5, series, tl.log(1 + x))


@triton.jit
def bounded_exp(x):
    """exp(x) of float64 that does not underflow; NaN stays NaN."""
    return tl.exp(tl.where(x < -700.0, -700.0, x))


@triton.jit
def log_add(a, b):
    """log(exp(a) + exp(b)), also of minus infinity."""
    high = tl.where(a > b, a, b)
    low = tl.where(a > b, b, a)
    safe = tl.where(high == float("-inf"), 0.0, high)
    return tl.where(high == float("-inf"), high, safe + log1p(tl.exp(low - safe)))


@triton.jit
def log_sum(x):
    """log of the sum of exp(x), also if all are minus infinity."""
    high = tl.max(x, 0)
    safe = tl.where(high == float("-inf"), 0.0, high)
    return safe + tl.log(tl.sum(tl.exp(x - safe), 0))
