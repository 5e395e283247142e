r"""Forward and backward messages of the option path, in log space and time-major.

The transition is diagonal plus rank one, so a step costs O(K):

.. math:: \alpha_t = \pi_t \odot [(1-\psi_t)\odot\alpha_{t-1} + \eta\,\langle\psi_t, \alpha_{t-1}\rangle]

Everything here is plain differentiable torch; :mod:`~pyro_options.options.marginal` replaces the backward
pass by the posterior itself. Shapes: ``log_weights (..., K)``, ``termination_logits`` and ``emission`` ``(T, ..., K)``.
Padded steps must carry ``emission = 0`` and ``termination_logits = NEVER``, which make a step the identity.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

NEVER = -1e4  # a termination logit whose probability is exactly zero and whose complement is exactly one


class Messages(NamedTuple):
    """Normalized messages, one per step.

    ``state[t]``: log p(h_t | a_0..t) or log-proportional to p(a_t+1.. | h_t). ``switch[t]``: what the rank-one part of
    the transition sums to at step t. ``log_normalizer[t]``: what was divided out.
    """

    state: Tensor  # (T, ..., K)
    switch: Tensor  # (T, ...)
    log_normalizer: Tensor  # (T, ...)


class StepPosterior(NamedTuple):
    """Posterior probabilities of what happens on entering step t, given all actions."""

    stays: Tensor  # (T, ..., K): b_t = 0 and h_t = k
    starts: Tensor  # (T, ..., K): b_t = 1 and h_t = k
    stops: Tensor  # (T, ..., K): b_t = 1 and h_{t-1} = k


def forward_messages(log_weights: Tensor, termination_logits: Tensor, emission: Tensor) -> Messages:
    """What the actions so far say about the option of each step."""
    log_stop, log_stay = logsigmoid(termination_logits), logsigmoid(-termination_logits)
    alpha = log_weights + emission[0]
    log_normalizer = torch.logsumexp(alpha, -1)
    alpha = alpha - log_normalizer.unsqueeze(-1)
    state, switch, normalizers = [alpha], [torch.zeros_like(log_normalizer)], [log_normalizer]
    for t in range(1, len(emission)):
        log_switch = torch.logsumexp(log_stop[t] + alpha, -1)
        alpha = emission[t] + torch.logaddexp(log_stay[t] + alpha, log_weights + log_switch.unsqueeze(-1))
        log_normalizer = torch.logsumexp(alpha, -1)
        alpha = alpha - log_normalizer.unsqueeze(-1)
        state.append(alpha)
        switch.append(log_switch)
        normalizers.append(log_normalizer)
    return Messages(torch.stack(state), torch.stack(switch), torch.stack(normalizers))


def backward_messages(log_weights: Tensor, termination_logits: Tensor, emission: Tensor) -> Messages:
    """What the actions ahead say about the option of each step."""
    log_stop, log_stay = logsigmoid(termination_logits), logsigmoid(-termination_logits)
    beta = torch.zeros_like(emission[0])
    state, switch, normalizers = [beta], [], []
    for t in range(len(emission) - 1, 0, -1):
        ahead = emission[t] + beta
        log_switch = torch.logsumexp(log_weights + ahead, -1)
        beta = torch.logaddexp(log_stay[t] + ahead, log_stop[t] + log_switch.unsqueeze(-1))
        log_normalizer = torch.logsumexp(beta, -1)
        beta = beta - log_normalizer.unsqueeze(-1)
        state.append(beta)
        switch.append(log_switch)
        normalizers.append(log_normalizer)
    first = torch.logsumexp(log_weights + emission[0] + beta, -1)
    switch.append(first)
    normalizers.append(torch.zeros_like(first))
    return Messages(*(torch.stack(part[::-1]) for part in (state, switch, normalizers)))


def step_posterior(
    log_weights: Tensor, termination_logits: Tensor, emission: Tensor, forward: Messages, backward: Messages
) -> StepPosterior:
    """Both messages together: the posterior of staying and of starting at each step."""
    alpha = forward.state[:-1]
    ahead = emission + backward.state
    stay = alpha + logsigmoid(-termination_logits[1:]) + ahead[1:]
    start = log_weights + forward.switch[1:].unsqueeze(-1) + ahead[1:]
    stop = alpha + logsigmoid(termination_logits[1:]) + backward.switch[1:].unsqueeze(-1)
    log_normalizer = torch.logsumexp(torch.logaddexp(stay, start), -1, keepdim=True)
    later = [torch.exp(part - log_normalizer) for part in (stay, start, stop)]
    first_start = torch.softmax(log_weights + ahead[:1], -1)
    none = torch.zeros_like(first_start)
    return StepPosterior(*(torch.cat([first, rest]) for first, rest in zip((none, first_start, none), later)))
