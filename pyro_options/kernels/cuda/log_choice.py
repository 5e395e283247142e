"""Triton twin of :mod:`pyro_options.kernels.log_choice`."""

import triton
import triton.language as tl
from torch import Tensor

from .triton_math import Launch, has_rows, lanes

_NUMBERS = 1024  # logits of a program


def accepts(*tensors: Tensor) -> bool:
    """Up to 256 actions."""
    return tensors[0].shape[-1] <= 256


@triton.jit
def _forward(
    logits, chosen, log_probs, probs, pairs, K, A, SAVE: tl.constexpr, PAIRS: tl.constexpr, LANES: tl.constexpr
):
    pair = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    action = tl.arange(0, LANES)
    inside = (pair[:, None] < pairs) & (action[None, :] < A)
    at = pair[:, None] * A + action[None, :]
    values = tl.load(logits + at, mask=inside, other=float("-inf"))
    values = tl.where(pair[:, None] < pairs, values, 0.0)
    below = values - tl.max(values, 1)[:, None]
    taken = tl.load(chosen + pair // K, mask=pair < pairs, other=0)
    size = tl.exp(below)
    total = tl.sum(size, 1)
    at_taken = tl.sum(tl.where(action[None, :] == taken[:, None], below, 0.0), 1)
    tl.store(log_probs + pair, at_taken - tl.log(total), mask=pair < pairs)
    if SAVE:
        tl.store(probs + at, size / total[:, None], mask=inside)


@triton.jit
def _backward(grad, chosen, probs, grad_logits, pairs, K, A, PAIRS: tl.constexpr, LANES: tl.constexpr):
    pair = tl.program_id(0).to(tl.int64) * PAIRS + tl.arange(0, PAIRS)
    action = tl.arange(0, LANES)
    inside = (pair[:, None] < pairs) & (action[None, :] < A)
    at = pair[:, None] * A + action[None, :]
    share = tl.load(probs + at, mask=inside, other=0.0)
    taken = tl.load(chosen + pair // K, mask=pair < pairs, other=0)
    by = tl.load(grad + pair, mask=pair < pairs, other=0.0)[:, None]
    tl.store(grad_logits + at, tl.where(action[None, :] == taken[:, None], by, 0.0) - by * share, mask=inside)


def _launch(kernel, shaped: Tensor, inputs, outputs, **flags: int) -> Launch:
    R, K, A = shaped.shape
    width = lanes(A)
    constants = flags | {"PAIRS": max(1, _NUMBERS // width), "LANES": width}
    grid = (triton.cdiv(R * K, constants["PAIRS"]),)
    return Launch(kernel, grid, (*inputs, *outputs, R * K, K, A), constants, 4)


def launch_forward(inputs, outputs, settings) -> Launch:
    """Logits and actions to log-probabilities and probabilities."""
    return _launch(_forward, inputs[0], inputs, outputs, SAVE=has_rows(outputs[1]))


def launch_backward(inputs, outputs, settings) -> Launch:
    """Gradients of the log-probabilities, actions and probabilities to gradients of the logits."""
    return _launch(_backward, inputs[2], inputs, outputs)


def forward(inputs, outputs, settings) -> None:
    """One launch for all rows."""
    launch_forward(inputs, outputs, settings)()


def backward(inputs, outputs, settings) -> None:
    """One launch for all rows."""
    launch_backward(inputs, outputs, settings)()
