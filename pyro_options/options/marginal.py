"""The marginal likelihood of an episode's actions, whose gradient is the posterior over paths (Fisher's identity), and
the best path or a random one given the actions.

Two implementations that agree up to rounding: torch, for any device, and the kernels
:mod:`~pyro_options.kernels.path_marginal` and :mod:`~pyro_options.kernels.path_choice` for the CPU, if numba is
installed (``pip install "pyro-options[fast]"``). The first has a twin for CUDA.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from pyro_options.kernels.registry import KERNELS, TrackedFunction, keep_provenance

from .recursion import NEVER, Messages, backward_messages, best_path, forward_messages, sample_path, step_posterior

KERNEL, CHOICE = KERNELS["path_marginal"], KERNELS["path_choice"]


def _refuse_double_backward() -> None:
    if torch.is_grad_enabled():
        raise RuntimeError("log_marginal cannot be differentiated twice. Use posterior(emission).log_marginal instead.")


class TorchLogMarginal(TrackedFunction):
    """``log_weights (..., K)`` or ``(T, ..., K)``, ``termination_logits`` and ``emission (T, ..., K)`` to ``(...)``."""

    @staticmethod
    def forward(ctx, log_weights, termination_logits, emission):
        forward = forward_messages(log_weights, termination_logits, emission)
        ctx.save_for_backward(log_weights, termination_logits, emission, *forward)
        return forward.log_normalizer.sum(0)

    @staticmethod
    def backward(ctx, grad):
        _refuse_double_backward()
        log_weights, termination_logits, emission, *forward = ctx.saved_tensors
        backward = backward_messages(log_weights, termination_logits, emission)
        stays, starts, stops = step_posterior(log_weights, termination_logits, emission, Messages(*forward), backward)
        psi = torch.sigmoid(termination_logits)
        grad = grad.unsqueeze(-1)
        stop_grad = torch.zeros_like(stops)
        stop_grad[1:] = stops[1:] * (1 - psi[1:]) - stays[1:] * psi[1:]
        chosen = starts if log_weights.dim() == emission.dim() else starts.sum(0)
        return chosen * grad, stop_grad * grad, (stays + starts) * grad


class _Results(NamedTuple):
    """Outputs of the kernel; empty tensors are not computed."""

    value: Tensor  # (N,)
    grad_weights: Tensor  # (N, K)
    grad_logits: Tensor  # (N, T, K)
    grad_emission: Tensor  # (N, T, K)
    starts: Tensor  # (N, T, K)


def _run_kernel(log_weights, logits, emission, mask, gradients: bool, starts: bool = False) -> _Results:
    """Runs the kernel on tensors with a single batch dimension."""
    N, T, K = emission.shape
    if mask is None:
        mask = torch.ones((N, T), dtype=torch.bool, device=emission.device)
    results = _Results(
        emission.new_empty(N),
        emission.new_empty((N * gradients, K)),
        emission.new_empty((N * gradients, T, K)),
        emission.new_empty((N * gradients, T, K)),
        emission.new_empty((N * starts, T, K)),
    )
    KERNEL.run("log_marginal", emission.numel(), (log_weights, logits, emission, mask), results)
    return results


class CompiledLogMarginal(TrackedFunction):
    """``log_weights (N, K)``, ``termination_logits`` and ``emission`` ``(N, T, K)``, ``mask (N, T)`` to ``(N,)``.

    The forward pass computes and saves the gradients too: a second run of the kernel would double its time.
    """

    @staticmethod
    def forward(ctx, log_weights, termination_logits, emission, mask):
        results = _run_kernel(log_weights, termination_logits, emission, mask, gradients=True)
        ctx.save_for_backward(results.grad_weights, results.grad_logits, results.grad_emission)
        return results.value

    @staticmethod
    def backward(ctx, grad):
        _refuse_double_backward()
        shapes = (1,), (1, 1), (1, 1)
        grads = [
            saved * grad.reshape(-1, *shape) if needed else None
            for saved, shape, needed in zip(ctx.saved_tensors, shapes, ctx.needs_input_grad)
        ]
        return *grads, None


def mask_out(logits: Tensor, emission: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Termination logits and emission with padded steps turned into the identity."""
    if mask is None:
        return logits, emission
    padding = ~mask.unsqueeze(-1)
    return logits.masked_fill(padding, NEVER), emission.masked_fill(padding, 0)


def time_major(
    log_weights: Tensor, termination_logits: Tensor, emission: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The arguments of the recursion: time first, padded steps turned into the identity."""
    logits, emission = mask_out(termination_logits, emission, mask)
    if log_weights.dim() == emission.dim():
        log_weights = log_weights.movedim(-2, 0)
    return log_weights, logits.movedim(-2, 0), emission.movedim(-2, 0)


def _can_compile(log_weights: Tensor, termination_logits: Tensor, emission: Tensor) -> bool:
    """Whether the kernel can run, which also requires weights that do not depend on the step."""
    return log_weights.dim() < emission.dim() and KERNEL.take(log_weights, termination_logits, emission)


def _needs_gradient(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def _flat(log_weights, logits, emission, mask) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The same tensors with one batch dimension."""
    T, K = emission.shape[-2:]
    mask = None if mask is None else mask.reshape(-1, T)
    return log_weights.reshape(-1, K), logits.reshape(-1, T, K), emission.reshape(-1, T, K), mask


def log_marginal(log_weights: Tensor, termination_logits: Tensor, emission: Tensor, mask: Tensor | None) -> Tensor:
    """``log p(actions | weights)`` with the path summed out, shape ``(...)``.

    :param log_weights: log η, ``(..., K)``, or ``(..., T, K)`` if they depend on the state
    :param termination_logits: logit ψ_k(s_t), ``(..., T, K)``
    :param emission: log π_k(a_t | s_t), ``(..., T, K)``
    :param mask: ``(..., T)``
    """
    tensors = (log_weights, termination_logits, emission)
    if not _can_compile(*tensors):
        return TorchLogMarginal.apply(*time_major(*tensors, mask))
    flat = _flat(*tensors, mask)
    if _needs_gradient(*tensors):
        return CompiledLogMarginal.apply(*flat).reshape(emission.shape[:-2])
    return keep_provenance(_run_kernel(*flat, gradients=False).value.reshape(emission.shape[:-2]), *tensors)


def _chooses_compiled(log_weights: Tensor, emission: Tensor, *others: Tensor) -> bool:
    return log_weights.dim() < emission.dim() and CHOICE.take(log_weights, emission, *others)


def _chosen(function: str, flat: tuple, recursion: Callable, inputs: tuple, outputs: tuple) -> None:
    """Fills ``outputs`` with one path for each episode: by a kernel, or by the recursion where that is not exact.

    :param flat: weights, termination logits, emission and mask with one batch dimension
    :param inputs: what else the kernel needs
    """
    *tensors, mask = flat
    there = flat[2].new_ones(flat[2].shape[:2], dtype=torch.bool) if mask is None else mask
    exact = there.new_empty(len(there))
    CHOICE.run(function, flat[2].numel(), (*tensors, there, *inputs), (*outputs, exact))
    if not exact.all():
        for output, found in zip(outputs, recursion(*time_major(*(part[~exact] for part in (*tensors, there))))):
            output[~exact] = found.movedim(0, -1) if found.dim() > 1 else found


@torch.no_grad()
def best_option_path(
    log_weights: Tensor, termination_logits: Tensor, emission: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The most probable option sequence, terminations summed out, ``(..., T)``, and its log-probability ``(...)``."""
    tensors = (log_weights, termination_logits, emission)
    if not _chooses_compiled(*tensors):
        options, log_prob = best_path(*time_major(*tensors, mask))
        return options.movedim(0, -1), log_prob
    flat = _flat(*tensors, mask)
    options, log_prob = flat[2].new_empty(flat[2].shape[:2], dtype=torch.long), flat[2].new_empty(len(flat[2]))
    _chosen("best_path", flat, best_path, (), (options, log_prob))
    return options.reshape(emission.shape[:-1]), log_prob.reshape(emission.shape[:-2])


@torch.no_grad()
def drawn_option_path(
    log_weights: Tensor, termination_logits: Tensor, emission: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Options and terminations drawn from their posterior, both ``(..., T)``."""
    tensors = (log_weights, termination_logits, emission)
    if not _chooses_compiled(*tensors):
        options, terminations = sample_path(*time_major(*tensors, mask))
        return options.movedim(0, -1), terminations.movedim(0, -1)
    flat = _flat(*tensors, mask)
    options, terminations = (flat[2].new_empty(flat[2].shape[:2], dtype=torch.long) for _ in range(2))
    uniforms = torch.rand(options.shape, dtype=torch.float64, device=options.device)
    _chosen("draw_path", flat, sample_path, (uniforms,), (options, terminations))
    return options.reshape(emission.shape[:-1]), terminations.reshape(emission.shape[:-1])


def path_posterior(
    log_weights: Tensor, termination_logits: Tensor, emission: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """``p(h_t = k | a)`` and ``p(b_t = 1, h_t = k | a)``, both ``(..., T, K)``, and the log marginal ``(...)``.

    If a gradient is needed this runs in torch and can be differentiated any number of times.
    """
    tensors = (log_weights, termination_logits, emission)
    if _can_compile(*tensors) and not _needs_gradient(*tensors):
        results = _run_kernel(*_flat(*tensors, mask), gradients=True, starts=True)
        shape = emission.shape
        found = results.grad_emission.reshape(shape), results.starts.reshape(shape), results.value.reshape(shape[:-2])
        return keep_provenance(found, *tensors)
    inputs = time_major(*tensors, mask)
    forward = forward_messages(*inputs)
    stays, starts, _ = step_posterior(*inputs, forward, backward_messages(*inputs))
    stays, starts = stays.movedim(0, -2), starts.movedim(0, -2)
    if mask is not None:
        stays, starts = stays * mask.unsqueeze(-1), starts * mask.unsqueeze(-1)
    return stays + starts, starts, forward.log_normalizer.sum(0)
