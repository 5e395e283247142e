"""The likelihood of sequences from a Markov chain, whose gradient is the posterior over states (Fisher's identity).

Two implementations that agree up to rounding: torch, for any device, and the kernel
:mod:`~pyro_options.kernels.chain_marginal`. For arguments and shapes see :mod:`~pyro_options.distributions.markov`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from pyro.ops.provenance import detach_provenance
from torch import Tensor

from pyro_options.kernels.registry import KERNELS, TrackedFunction, keep_provenance

from .markov import ChainMessages, chain_backward, chain_forward, chain_posterior

KERNEL = KERNELS["chain_marginal"]


def _refuse_double_backward() -> None:
    if torch.is_grad_enabled():
        raise RuntimeError("chain_log_marginal cannot be differentiated twice. Use chain_forward instead.")


class _Results(NamedTuple):
    """The log-likelihood, its gradients with respect to all inputs, and where sequences enter a state anew."""

    value: Tensor  # (...)
    grad_first: Tensor  # (..., K)
    grad_rows: Tensor  # (..., K, K)
    grad_leave: Tensor  # (..., T, K)
    grad_emission: Tensor  # (..., T, K) p(h_t = k | x)
    starts: Tensor  # (..., T, K)


def _in_torch(
    log_first: Tensor, log_rows: Tensor, leave_logits: Tensor, emission: Tensor, forward: ChainMessages | None = None
) -> _Results:
    """Everything that the kernel computes, differentiable any number of times."""
    if forward is None:
        forward = chain_forward(log_first, log_rows, leave_logits, emission)
    beta = chain_backward(log_rows, leave_logits, emission).state
    stays, starts, stops, moves = chain_posterior(log_first, log_rows, leave_logits, emission, forward.state, beta)
    psi = torch.sigmoid(leave_logits)
    later = stops[1:] * (1 - psi[1:]) - stays[1:] * psi[1:]
    grad_leave = torch.cat([torch.zeros_like(stops[:1]), later])
    over_time = (part.movedim(0, -2) for part in (grad_leave, stays + starts, starts))
    return _Results(forward.log_normalizer.sum(0), starts[0], moves, *over_time)


def _run_kernel(log_first, log_rows, leave_logits, emission, gradients: bool) -> _Results:
    """The same by the kernel; without ``gradients`` only the value."""
    log_first, log_rows, leave_logits, emission = map(detach_provenance, (log_first, log_rows, leave_logits, emission))
    T, K, shape = len(emission), emission.shape[-1], emission.shape[1:-1]
    N = shape.numel()
    shared = log_rows.dim() == 2 or log_rows.shape[:-2] == shape[:-1] + (1,)  # by all sequences, or those of a particle
    matrices = log_rows if shared else log_rows.expand(shape + (K, K))
    inputs = (
        log_first.expand(shape + (K,)).reshape(N, K),
        matrices.reshape(-1, K, K),
        *(part.movedim(0, -2).reshape(N, T, K) for part in (leave_logits.expand_as(emission), emission)),
    )
    sizes = (K,), (K, K), (T, K), (T, K), (T, K)
    found = [emission.new_empty((N * gradients, *size)) for size in sizes]
    value = emission.new_empty(N)
    KERNEL.run("log_marginal", N * T * K, inputs, [value, *found])
    if gradients:
        found = [part.reshape((*shape, *size)) for part, size in zip(found, sizes)]
    return _Results(value.reshape(shape), *found)


class TorchChainMarginal(TrackedFunction):
    """``log_first (..., K)``, ``log_rows (..., K, K)``, ``leave_logits`` and ``emission (T, ..., K)`` to ``(...)``."""

    @staticmethod
    def forward(ctx, log_first, log_rows, leave_logits, emission):
        messages = chain_forward(log_first, log_rows, leave_logits, emission)
        ctx.save_for_backward(log_first, log_rows, leave_logits, emission, *messages)
        return messages.log_normalizer.sum(0)

    @staticmethod
    def backward(ctx, grad):
        _refuse_double_backward()
        log_first, log_rows, leave_logits, emission, *messages = ctx.saved_tensors
        inputs = log_first, log_rows, leave_logits, emission
        results = _in_torch(log_first, log_rows, leave_logits, emission, ChainMessages(*messages))
        return _scaled(results, grad, [part.shape for part in inputs])


class CompiledChainMarginal(TrackedFunction):
    """The same by the kernel, which computes the gradients in the forward pass."""

    @staticmethod
    def forward(ctx, log_first, log_rows, leave_logits, emission):
        results = _run_kernel(log_first, log_rows, leave_logits, emission, gradients=True)
        ctx.save_for_backward(*results[1:5])
        ctx.shapes = [part.shape for part in (log_first, log_rows, leave_logits, emission)]
        return results.value

    @staticmethod
    def backward(ctx, grad):
        _refuse_double_backward()
        first, rows, leave, emission = ctx.saved_tensors
        return _scaled(_Results(grad, first, rows, leave, emission, starts=grad), grad, ctx.shapes)


def _scaled(results: _Results, grad: Tensor, shapes: Sequence[torch.Size]) -> tuple[Tensor, ...]:
    """Gradients of all inputs, in their shapes, from those of each sequence."""
    row = grad.unsqueeze(-1)
    over_time = (part * row.unsqueeze(-1) for part in (results.grad_leave, results.grad_emission))
    found = results.grad_first * row, results.grad_rows * row.unsqueeze(-1), *(x.movedim(-2, 0) for x in over_time)
    return tuple(part.sum_to_size(shape) for part, shape in zip(found, shapes))


def _needs_gradient(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def chain_log_marginal(log_first: Tensor, log_rows: Tensor, leave_logits: Tensor, emission: Tensor) -> Tensor:
    """The log-likelihood of each sequence ``(...)``, with the path summed out; differentiable once."""
    inputs = log_first, log_rows, leave_logits, emission
    if not KERNEL.take(*inputs):
        return TorchChainMarginal.apply(*inputs)
    if _needs_gradient(*inputs):
        return CompiledChainMarginal.apply(*inputs)
    return keep_provenance(_run_kernel(*inputs, gradients=False).value, *inputs)


def chain_states(
    log_first: Tensor, log_rows: Tensor, leave_logits: Tensor, emission: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """``p(h_t = k | x)`` and the part of it that enters k anew, both ``(..., T, K)``, and the log-likelihood ``(...)``.

    If a gradient is needed this runs in torch and can be differentiated any number of times.
    """
    inputs = log_first, log_rows, leave_logits, emission
    if KERNEL.take(*inputs) and not _needs_gradient(*inputs):
        found = _run_kernel(*inputs, gradients=True)
        return keep_provenance((found.grad_emission, found.starts, found.value), *inputs)
    found = _in_torch(*inputs)
    return found.grad_emission, found.starts, found.value
