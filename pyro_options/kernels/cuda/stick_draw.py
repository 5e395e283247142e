"""Triton twin of :mod:`pyro_options.kernels.stick_draw`: float64 inside."""

import triton
import triton.language as tl
from torch import Tensor

from .triton_math import Launch, expm1, log1p

_BLOCK = 128


def accepts(*tensors: Tensor) -> bool:
    """Any number of sticks."""
    return True


@triton.jit
def _draw(
    exponential, a, b, logits, log_density, by_a, by_b, density_by_x, density_by_a, density_by_b, S, LANES: tl.constexpr
):
    i = tl.program_id(0) * LANES + tl.arange(0, LANES)
    inside = i < S
    E = tl.load(exponential + i, mask=inside, other=1.0).to(tl.float64)
    A = tl.load(a + i, mask=inside, other=1.0).to(tl.float64)
    B = tl.load(b + i, mask=inside, other=1.0).to(tl.float64)
    y = E / B
    far = y > 40.0
    power = tl.where(y > 0.7, log1p(-tl.exp(-y)), tl.log(-expm1(-tl.minimum(y, 1.0))))
    log_v = power / A
    odds = expm1(tl.minimum(y, 40.0))
    left = -expm1(log_v)
    kept = tl.where(far, 1.0, left)  # 1 - v where it is not so small that 0 / 0 would follow
    log_left = tl.where(far, -y - tl.log(A), tl.log(kept))
    ratio = tl.where(far, 1.0, -log_v / kept)
    rate = tl.where(far, y, y / (odds * kept * A))
    odds_left = tl.where(far, 1.0, A * odds * left)
    odds_log_v = tl.where(far, -1.0 / A, odds * log_v)
    tl.store(logits + i, log_v - log_left, mask=inside)
    tl.store(log_density + i, tl.log(A) + tl.log(B) + power + y - E + log_left, mask=inside)
    tl.store(by_a + i, ratio / A, mask=inside)
    tl.store(by_b + i, -rate / B, mask=inside)
    tl.store(density_by_x + i, A * left - (B - 1.0) * odds_left - tl.exp(log_v), mask=inside)
    tl.store(density_by_a + i, 1.0 / A + log_v - (B - 1.0) * odds_log_v, mask=inside)
    tl.store(density_by_b + i, 1.0 / B - y, mask=inside)


def launch_draw(inputs, outputs, settings) -> Launch:
    """Exp(1) draws, a and b to logits, their log-density, and five derivatives."""
    S = inputs[0].numel()
    return Launch(_draw, (triton.cdiv(S, _BLOCK),), (*inputs, *outputs, S), {"LANES": _BLOCK})


def draw(inputs, outputs, settings) -> None:
    """One launch for all sticks."""
    launch_draw(inputs, outputs, settings)()
