r"""Forward and backward recursions over the option path, in log space and time-major.

The transition matrix is diagonal plus rank one, so a step costs O(K):

.. math:: \alpha_t = \pi_t \odot [(1-\psi_t)\odot\alpha_{t-1} + \eta\,\langle\psi_t, \alpha_{t-1}\rangle]

All sums and maxima over paths use these functions (except in the compiled kernels): likelihood, posterior, Viterbi,
posterior samples, and the filter of :class:`~pyro_options.skills.Imitation`. They are differentiable;
:mod:`~pyro_options.options.marginal` replaces autograd's backward pass by the posterior.

Shapes: ``termination_logits`` and ``emission`` ``(T, ..., K)``; ``log_weights (..., K)``, the same at every step, or
``(T, ..., K)`` if the high-level policy depends on the state. Padded steps must have ``emission = 0`` and
``termination_logits = NEVER``, which turns a step into the identity.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Categorical
from torch.nn.functional import logsigmoid

NEVER = -1e4  # a termination logit whose probability is exactly zero and whose complement is exactly one


class Messages(NamedTuple):
    r"""Normalized messages, one per step.

    The rank-one part of the transition enters as a scalar per step: forward log p(b_t = 1 | a_0..t-1), backward the log
    of :math:`\langle\eta, \pi_t\odot\beta_t\rangle`.
    """

    state: Tensor  # (T, ..., K) forward log p(h_t | a_0..t), backward log p(a_t+1.. | h_t) up to a constant
    switch: Tensor  # (T, ...) the scalar of the rank-one part
    log_normalizer: Tensor  # (T, ...) log of the constant that was divided out


class StepPosterior(NamedTuple):
    """Posterior probabilities of the transition into step t, given all actions."""

    stays: Tensor  # (T, ..., K): b_t = 0 and h_t = k
    starts: Tensor  # (T, ..., K): b_t = 1 and h_t = k
    stops: Tensor  # (T, ..., K): b_t = 1 and h_{t-1} = k


def weights_at(log_weights: Tensor, emission: Tensor) -> Callable[[int], Tensor]:
    """The log weights of step t as a function of t.

    :param log_weights: ``(..., K)`` or ``(T, ..., K)``
    :param emission: ``(T, ..., K)``
    """
    if log_weights.dim() == emission.dim():
        return lambda t: log_weights[t]
    return lambda t: log_weights


def arrive(log_weights, log_stop, log_stay, alpha, logsumexp=torch.logsumexp, logaddexp=torch.logaddexp) -> tuple:
    """The prediction step of the forward recursion: log p(h_t | a_0..t-1) and log p(b_t = 1 | a_0..t-1).

    :param alpha: log p(h_{t-1} | a_0..t-1), ``(..., K)``; a numpy array if the last two arguments are numpy functions
    """
    log_switch = logsumexp(log_stop + alpha, -1)
    return logaddexp(log_stay + alpha, log_weights + log_switch[..., None]), log_switch


def forward_messages(log_weights: Tensor, termination_logits: Tensor, emission: Tensor) -> Messages:
    """Filtering: the messages of the actions up to and including each step."""
    log_stop, log_stay = logsigmoid(termination_logits), logsigmoid(-termination_logits)
    weights = weights_at(log_weights, emission)
    alpha = weights(0) + emission[0]
    log_normalizer = torch.logsumexp(alpha, -1)
    alpha = alpha - log_normalizer.unsqueeze(-1)
    state, switch, normalizers = [alpha], [torch.zeros_like(log_normalizer)], [log_normalizer]
    for t in range(1, len(emission)):
        arrived, log_switch = arrive(weights(t), log_stop[t], log_stay[t], alpha)
        alpha = emission[t] + arrived
        log_normalizer = torch.logsumexp(alpha, -1)
        alpha = alpha - log_normalizer.unsqueeze(-1)
        state.append(alpha)
        switch.append(log_switch)
        normalizers.append(log_normalizer)
    return Messages(torch.stack(state), torch.stack(switch), torch.stack(normalizers))


def backward_messages(log_weights: Tensor, termination_logits: Tensor, emission: Tensor) -> Messages:
    """The messages of the actions after each step."""
    log_stop, log_stay = logsigmoid(termination_logits), logsigmoid(-termination_logits)
    weights = weights_at(log_weights, emission)
    beta = torch.zeros_like(emission[0])
    state, switch, normalizers = [beta], [], []
    for t in range(len(emission) - 1, 0, -1):
        ahead = emission[t] + beta
        log_switch = torch.logsumexp(weights(t) + ahead, -1)
        beta = torch.logaddexp(log_stay[t] + ahead, log_stop[t] + log_switch.unsqueeze(-1))
        log_normalizer = torch.logsumexp(beta, -1)
        beta = beta - log_normalizer.unsqueeze(-1)
        state.append(beta)
        switch.append(log_switch)
        normalizers.append(log_normalizer)
    first = torch.logsumexp(weights(0) + emission[0] + beta, -1)
    switch.append(first)
    normalizers.append(torch.zeros_like(first))
    return Messages(*(torch.stack(part[::-1]) for part in (state, switch, normalizers)))


def step_posterior(
    log_weights: Tensor, termination_logits: Tensor, emission: Tensor, forward: Messages, backward: Messages
) -> StepPosterior:
    """Smoothing: the posterior of each transition from forward and backward messages."""
    alpha = forward.state[:-1]
    ahead = emission + backward.state
    stay = alpha + logsigmoid(-termination_logits[1:]) + ahead[1:]
    varies = log_weights.dim() == emission.dim()
    first_weights, later_weights = (log_weights[:1], log_weights[1:]) if varies else (log_weights, log_weights)
    start = later_weights + forward.switch[1:].unsqueeze(-1) + ahead[1:]
    stop = alpha + logsigmoid(termination_logits[1:]) + backward.switch[1:].unsqueeze(-1)
    log_normalizer = torch.logsumexp(torch.logaddexp(stay, start), -1, keepdim=True)
    later = [torch.exp(part - log_normalizer) for part in (stay, start, stop)]
    first_start = torch.softmax(first_weights + ahead[:1], -1)
    none = torch.zeros_like(first_start)
    return StepPosterior(*(torch.cat([first, rest]) for first, rest in zip((none, first_start, none), later)))


def best_path(log_weights: Tensor, termination_logits: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable option sequence, terminations summed out, ``(T, ...)``, and its log-probability ``(...)``."""
    log_stop, log_stay = logsigmoid(termination_logits), logsigmoid(-termination_logits)
    weights = weights_at(log_weights, emission)
    score, back = weights(0) + emission[0], []
    stays = torch.arange(score.shape[-1], device=score.device).expand_as(score)
    for t in range(1, len(emission)):
        leave, source = (score + log_stop[t]).max(-1, keepdim=True)
        # Continuing and terminating into the same option give the same option sequence: their probabilities add.
        keep = score + torch.logaddexp(log_stay[t], log_stop[t] + weights(t))
        move = leave + weights(t)
        back.append(torch.where(keep >= move, stays, source))
        score = emission[t] + torch.maximum(keep, move)
    log_prob, option = score.max(-1)
    options = [option]
    for source in reversed(back):
        option = source.gather(-1, option.unsqueeze(-1)).squeeze(-1)
        options.append(option)
    return torch.stack(options[::-1]), log_prob


def sample_path(log_weights: Tensor, termination_logits: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
    """Options and terminations drawn from their posterior, both ``(T, ...)``: forward filtering, backward sampling."""
    log_stop, log_stay = logsigmoid(termination_logits), logsigmoid(-termination_logits)
    weights = weights_at(log_weights, emission)
    alpha = forward_messages(log_weights, termination_logits, emission).state
    option = Categorical(logits=alpha[-1], validate_args=False).sample()
    options, terminations = [option], []
    for t in range(len(emission) - 1, 0, -1):
        chosen = option.unsqueeze(-1)
        stay = (alpha[t - 1] + log_stay[t]).gather(-1, chosen)
        stop = alpha[t - 1] + log_stop[t] + weights(t).gather(-1, chosen)
        event = Categorical(logits=torch.cat([stay, stop], -1), validate_args=False).sample()
        terminations.append((event > 0).to(option.dtype))
        option = torch.where(event > 0, event - 1, option)
        options.append(option)
    terminations.append(torch.ones_like(option))
    return torch.stack(options[::-1]), torch.stack(terminations[::-1])
