r"""Sums and maxima over the paths of a Markov chain with K states, in log space and time-major.

A state is left with probability :math:`\psi`, which may differ from step to step; the next one is then drawn from the
row of the state that was left:

.. math:: \alpha_t = p_t \odot [(1-\psi_t)\odot\alpha_{t-1} + \Pi^\top(\psi_t\odot\alpha_{t-1})]

A step costs :math:`O(K^2)`, as one matrix product for all sequences. A hidden Markov model leaves its state at every
step (``leave_logits`` of :data:`ALWAYS`).

Shapes: ``log_first (..., K)``, ``log_rows (..., K, K)`` (from, to), ``leave_logits`` and ``emission`` ``(T, ..., K)``.
Padded steps must have ``emission = 0`` and ``leave_logits = NEVER``, which turns a step into the identity.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Categorical
from torch.nn.functional import logsigmoid

ALWAYS, NEVER = 1e4, -1e4  # logits whose probabilities are exactly one and zero
_CEILING = 80.0  # exp(80) is still finite in float32


def log_product(log_vector: Tensor, matrix: Tensor) -> Tensor:
    """``log(exp(v) @ M)`` with the exponential shifted by the largest entry of v.

    Sums below the smallest normal number are clamped to it, so that values and gradients are finite.
    """
    shift = log_vector.amax(-1, keepdim=True).detach()
    product = (torch.exp(log_vector - shift).unsqueeze(-2) @ matrix).squeeze(-2)
    return torch.log(product.clamp(min=torch.finfo(product.dtype).tiny)) + shift


class ChainMessages(NamedTuple):
    """Normalized messages, one per step."""

    state: Tensor  # (T, ..., K) forward log p(h_t | x_0..t), backward log p(x_t+1.. | h_t) up to a constant
    log_normalizer: Tensor  # (T, ...) log of the constant that was divided out


class ChainPosterior(NamedTuple):
    """Posterior probabilities of the transition into step t, given all observations."""

    stays: Tensor  # (T, ..., K): not left, and h_t = k
    starts: Tensor  # (T, ..., K): left, and h_t = k; all of the first step
    stops: Tensor  # (T, ..., K): left, and h_{t-1} = k
    moves: Tensor  # (..., K, K): expected number of transitions from a state that was left


def _normalized(message: Tensor) -> tuple[Tensor, Tensor]:
    log_normalizer = torch.logsumexp(message, -1)
    return message - log_normalizer.unsqueeze(-1), log_normalizer


def chain_forward(log_first: Tensor, log_rows: Tensor, leave_logits: Tensor, emission: Tensor) -> ChainMessages:
    """Filtering: the messages of the observations up to and including each step."""
    log_leave, log_stay = logsigmoid(leave_logits), logsigmoid(-leave_logits)
    rows = torch.exp(log_rows)
    alpha, log_normalizer = _normalized(log_first + emission[0])
    state, normalizers = [alpha], [log_normalizer]
    for t in range(1, len(emission)):
        arrived = torch.logaddexp(log_stay[t] + alpha, log_product(log_leave[t] + alpha, rows))
        alpha, log_normalizer = _normalized(emission[t] + arrived)
        state.append(alpha)
        normalizers.append(log_normalizer)
    return ChainMessages(torch.stack(state), torch.stack(normalizers))


def chain_backward(log_rows: Tensor, leave_logits: Tensor, emission: Tensor) -> ChainMessages:
    """The messages of the observations after each step."""
    log_leave, log_stay = logsigmoid(leave_logits), logsigmoid(-leave_logits)
    columns = torch.exp(log_rows).transpose(-1, -2)
    beta = torch.zeros_like(emission[0])
    state, normalizers = [beta], [torch.zeros_like(beta[..., 0])]
    for t in range(len(emission) - 1, 0, -1):
        ahead = emission[t] + beta
        beta = torch.logaddexp(log_stay[t] + ahead, log_leave[t] + log_product(ahead, columns))
        beta, log_normalizer = _normalized(beta)
        state.append(beta)
        normalizers.append(log_normalizer)
    return ChainMessages(torch.stack(state[::-1]), torch.stack(normalizers[::-1]))


def chain_posterior(
    log_first: Tensor, log_rows: Tensor, leave_logits: Tensor, emission: Tensor, alpha: Tensor, beta: Tensor
) -> ChainPosterior:
    """Smoothing: the posterior of each transition from forward and backward messages ``(T, ..., K)``."""
    ahead, rows = emission + beta, torch.exp(log_rows)
    first = torch.softmax(log_first + ahead[:1], -1)
    before, leave = alpha[:-1], logsigmoid(leave_logits[1:]) + alpha[:-1]
    stay = before + logsigmoid(-leave_logits[1:]) + ahead[1:]
    start = log_product(leave, rows) + ahead[1:]
    stop = leave + log_product(ahead[1:], rows.transpose(-1, -2))
    log_normalizer = torch.logsumexp(torch.logaddexp(stay, start), -1, keepdim=True)
    later = [torch.exp(part - log_normalizer) for part in (stay, start, stop)]
    # The joint of both ends is an outer product times the rows: summed over time it is one product of matrices.
    shift = leave.amax(-1, keepdim=True)
    left, right = torch.exp(leave - shift), torch.exp((ahead[1:] + shift - log_normalizer).clamp(max=_CEILING))
    none = torch.zeros_like(first)
    stays, starts, stops = (torch.cat([head, tail]) for head, tail in zip((none, first, none), later))
    moves = torch.einsum("t...j,t...k->...jk", left, right) * rows
    return ChainPosterior(stays, starts, stops, moves)


def chain_best_path(
    log_first: Tensor, log_rows: Tensor, leave_logits: Tensor, emission: Tensor
) -> tuple[Tensor, Tensor]:
    """The most probable states ``(T, ...)``, and their joint log-probability with the observations ``(...)``.

    Leaving a state and drawing it again gives the same sequence of states as staying: their probabilities add.
    """
    log_leave, log_stay = logsigmoid(leave_logits), logsigmoid(-leave_logits)
    score, back = log_first + emission[0], []
    own = torch.eye(score.shape[-1], dtype=torch.bool, device=score.device)
    for t in range(1, len(emission)):
        step = log_leave[t].unsqueeze(-1) + log_rows  # (..., K, K)
        step = torch.where(own, torch.logaddexp(step, log_stay[t].unsqueeze(-1)), step)
        best, source = (score.unsqueeze(-1) + step).max(-2)
        back.append(source)
        score = emission[t] + best
    log_prob, state = score.max(-1)
    states = [state]
    for source in reversed(back):
        state = source.gather(-1, state.unsqueeze(-1)).squeeze(-1)
        states.append(state)
    return torch.stack(states[::-1]), log_prob


def chain_sample_path(
    log_first: Tensor, log_rows: Tensor, leave_logits: Tensor, emission: Tensor
) -> tuple[Tensor, Tensor]:
    """States and whether each was drawn anew, ``(T, ...)``, from their posterior: filtering, then backward sampling."""
    log_leave, log_stay = logsigmoid(leave_logits), logsigmoid(-leave_logits)
    alpha = chain_forward(log_first, log_rows, leave_logits, emission).state
    columns = log_rows.transpose(-1, -2).expand(alpha.shape[1:] + alpha.shape[-1:])
    state = Categorical(logits=alpha[-1], validate_args=False).sample()
    states, starts = [state], []
    for t in range(len(emission) - 1, 0, -1):
        chosen = state.unsqueeze(-1)
        stay = (alpha[t - 1] + log_stay[t]).gather(-1, chosen)
        arrive = columns.gather(-2, chosen.unsqueeze(-1).expand(columns[..., :1, :].shape)).squeeze(-2)
        leave = alpha[t - 1] + log_leave[t] + arrive
        event = Categorical(logits=torch.cat([stay, leave], -1), validate_args=False).sample()
        starts.append((event > 0).to(state.dtype))
        state = torch.where(event > 0, event - 1, state)
        states.append(state)
    starts.append(torch.ones_like(state))
    return torch.stack(states[::-1]), torch.stack(starts[::-1])
