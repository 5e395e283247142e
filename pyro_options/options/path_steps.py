r"""Chains over options that are built on a model's evidence, and averages over one of their steps.

A chain is what the exact posterior is: given :math:`b_t = 1` it draws :math:`h_t`, given :math:`h_{t-1}` it draws
:math:`b_t`. With evidence :math:`\eta, \psi_t, e_t = \log\pi(a_t\mid s_t)`, a message :math:`r_t` about the actions
after step t, :math:`u = e + r` and :math:`L_t = \log\sum_k \eta_k e^{u_{tk}}`,

.. math:: q(h_t = k\mid b_t = 1) = \eta_k e^{u_{tk} - L_t}, \qquad
    \mathrm{logit}\,q(b_t = 1\mid h_{t-1} = k) = \mathrm{logit}\,\psi_{tk} + L_t - u_{tk}

If the message is the exact one, :math:`\log p(a_{t+1:T-1}\mid h_t)` up to a constant, this is the posterior. Shapes are
``(..., T, K)``. Everything here is in torch; :mod:`~pyro_options.kernels.path_steps` is the same, compiled.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, one_hot, pad

from pyro_options.distributions.log_space import safe_log
from pyro_options.kernels.registry import TrackedFunction

from .evidence import PathEvidence


class Steps(NamedTuple):
    """The distribution of each step given the previous one."""

    log_starts: Tensor  # (..., T, K) log q(h_t = k | b_t = 1)
    stop_logits: Tensor  # (..., T, K) logit q(b_t = 1 | h_{t-1} = k); not used at t = 0, where b_0 = 1


class Transitions(NamedTuple):
    """Probabilities of the transitions into step t, given the option of the step before, which may be relaxed."""

    starts: Tensor  # (..., T, K): b_t = 1 and h_t = k
    stays: Tensor  # (..., T, K): b_t = 0 and h_t = k
    stops: Tensor  # (..., T, K): b_t = 1 and h_{t-1} = k

    @property
    def options(self) -> Tensor:
        """``(..., T, K)``: h_t = k."""
        return self.starts + self.stays


def coldness(temperature: float | Tensor, like: Tensor) -> Tensor:
    """The inverse temperature as the kernels take it, ``(1,)``; without a sync, whether it is a number or a tensor."""
    if isinstance(temperature, Tensor):
        return temperature.detach().to(like).reciprocal().reshape(1)
    return like.new_full((1,), 1 / temperature)


def look_ahead(evidence: PathEvidence, message: Tensor, count: int) -> Tensor:
    """The message that each step receives from ``count`` to ``2 * count - 1`` steps ahead, by the exact recursion.

    The steps are divided into blocks of ``count``, and the exact backward recursion runs from the message at the end of
    the next block: that costs two passes, however far it looks. Near the end of an episode the result is exact; with
    ``count >= T / 2`` everywhere. With ``count = 0`` the message stays as it is.
    """
    if not count:
        return message
    message = pad(message[..., :-1, :], (0, 0, 0, 1))  # there is nothing after the last step
    steps, more = message.shape[-2], -message.shape[-2] % count
    log_stop, log_stay = logsigmoid(evidence.termination_logits), logsigmoid(-evidence.termination_logits)
    weights = evidence.step_log_weights.expand(message.shape)
    # steps beyond the end pass a message on unchanged
    padded = [pad(x, (0, 0, 0, more)) for x in (message, weights, evidence.emission, log_stay)]
    padded.append(pad(log_stop, (0, 0, 0, more), value=-torch.inf))
    message, *factors = (x.unflatten(-2, (-1, count)) for x in padded)  # (..., blocks, count, K)

    def through(place: int, after: Tensor) -> Tensor:
        """From the message after the steps at this place of their blocks to the message before them."""
        log_weights, emission, stay, stop = (x[..., place, :] for x in factors)
        ahead = emission + after
        total = torch.logsumexp(log_weights + ahead, -1, keepdim=True)
        return torch.logaddexp(stay + ahead, stop + total)

    last = message[..., -1, :]
    for place in reversed(range(count)):
        last = through(place, last)  # at the end of the loop, of the last step of the block before
    last = pad(last[..., 1:, :], (0, 0, 0, 1))
    found = [last]
    for place in reversed(range(1, count)):
        last = through(place, last)
        found.append(last)
    return torch.stack(found[::-1], -2).flatten(-3, -2)[..., :steps, :]


def steps_given(evidence: PathEvidence, message: Tensor) -> Steps:
    """The chain of this evidence and message."""
    ahead = evidence.emission + message
    joint = evidence.step_log_weights + ahead
    total = torch.logsumexp(joint, -1, keepdim=True)
    return Steps(joint - total, evidence.termination_logits + total - ahead)


def walk(steps: Steps, noise: Tensor | None, temperature: float | Tensor = 1.0, discrete: bool = False) -> Tensor:
    """A path ``(..., T, K + 1)``, drawn step by step.

    :param noise: logistic in column 0, Gumbel in the others, ``(..., T, K + 1)``; ``None`` gives the marginals of the
        chain instead of a draw
    :param discrete: draw a discrete path rather than a relaxed one
    """
    drawn = []
    options = torch.zeros_like(steps.log_starts[..., 0, :])
    for t, (log_start, logit) in enumerate(zip(steps.log_starts.unbind(-2), steps.stop_logits.unbind(-2))):
        stays = options * torch.sigmoid(-logit)
        stop = (options * torch.sigmoid(logit)).sum(-1, keepdim=True)
        if noise is None:
            b = torch.ones_like(stop) if t == 0 else stop
            options = stays + b * torch.exp(log_start)
        else:
            noisy = (
                torch.cat([safe_log(stop) - safe_log(stays.sum(-1, keepdim=True)), log_start], -1) + noise[..., t, :]
            )
            b, fresh = _discretize(noisy) if discrete else _relax(noisy / temperature)
            b = torch.ones_like(b) if t == 0 else b
            options = torch.lerp(options, fresh, b)
        drawn.append(torch.cat([b, options], -1))
    return torch.stack(drawn, -2)


def _discretize(noisy: Tensor) -> tuple[Tensor, Tensor]:
    b = (noisy[..., :1] > 0).to(noisy.dtype)
    return b, one_hot(noisy[..., 1:].argmax(-1), noisy.shape[-1] - 1).to(noisy.dtype)


def _relax(scaled: Tensor) -> tuple[Tensor, Tensor]:
    return torch.sigmoid(scaled[..., :1]), torch.softmax(scaled[..., 1:], -1)


def transitions_given(steps: Steps, options: Tensor) -> Transitions:
    """The transitions of the chain from the options of a path.

    :param options: ``(..., T, K)``; the last step is not used
    """
    before = pad(options[..., :-1, :], (0, 0, 1, 0))
    stops, stays = before * torch.sigmoid(steps.stop_logits), before * torch.sigmoid(-steps.stop_logits)
    stop = torch.cat([torch.ones_like(stops[..., :1, :1]), stops[..., 1:, :].sum(-1, keepdim=True)], -2)
    return Transitions(stop * torch.exp(steps.log_starts), stays, stops)


class _Average(TrackedFunction):
    """:func:`average` of tensors of one shape, with half of the operations that autograd would need."""

    @staticmethod
    def forward(ctx, starts, stays, stops, log_starts, stop_logits, emission=None):
        ctx.save_for_backward(starts, stays, stops, log_starts, stop_logits, emission)
        log_stops = logsigmoid(stop_logits)
        per_step = (starts * log_starts).addcmul_(stops, log_stops)
        # log(1 - ψ) = log ψ - logit ψ, subtracted before it is weighed: in padded steps both are large
        per_step.addcmul_(stays, log_stops - stop_logits)
        if emission is not None:
            per_step.addcmul_(starts + stays, emission)
        return per_step.sum((-2, -1))

    @staticmethod
    def backward(ctx, grad):
        starts, stays, stops, log_starts, stop_logits, emission = ctx.saved_tensors
        grad, needed = grad[..., None, None], ctx.needs_input_grad
        by_transitions: list[Tensor | None] = [None] * 3
        if any(needed[:3]):
            log_stops = logsigmoid(stop_logits)
            each = [log_starts, log_stops - stop_logits]
            each = each if emission is None else [one + emission for one in each]
            by_transitions = [grad * one if need else None for one, need in zip((*each, log_stops), needed)]
        by_starts = grad * starts if needed[3] else None
        by_logits = grad * (stops - (stops + stays) * torch.sigmoid(stop_logits)) if needed[4] else None
        by_emission = grad * (starts + stays) if emission is not None and needed[5] else None
        return (*by_transitions, by_starts, by_logits, by_emission)[: len(needed)]


def average(
    transitions: Transitions, log_starts: Tensor, stop_logits: Tensor, emission: Tensor | None = None
) -> Tensor:
    r"""The log-probability of a path, averaged over each of its steps given the one before, ``(...)``.

    .. math:: \sum_t \sum_k p(b_t = 1, h_t = k)\log\eta_k + p(h_t = k)\,e_{tk} + \sum_{t\ge 1}\sum_k
        p(b_t = 1, h_{t-1} = k)\log\psi_{tk} + p(b_t = 0, h_t = k)\log(1-\psi_{tk})

    :param log_starts: :math:`\log\eta`, broadcastable to ``(..., T, K)``
    :param stop_logits: :math:`\mathrm{logit}\,\psi`
    :param emission: e
    """
    tensors = torch.broadcast_tensors(*transitions, log_starts, stop_logits, *(() if emission is None else (emission,)))
    return _Average.apply(*tensors)


def stepwise_log_prob(steps: Steps, transitions: Transitions, message: Tensor, options: Tensor) -> Tensor:
    r"""log q of a path, averaged over each step given the one before, with the message as a control variate, ``(...)``.

    The difference of the model's :func:`average` and this one is, in expectation over discrete paths, a lower bound of
    the log marginal. The control variate, :math:`E[r_t(h_t)\mid h_{t-1}] - r_t(h_t)`, has mean zero, and leaves to a
    path only the error of the message: if that is exact, every path, discrete or relaxed, gives the log marginal. It
    has no gradient: with one, on Breakout, the message fits better but the policies worse.

    :param transitions: from ``options``, :func:`transitions_given`
    :param message: that ``steps`` were made with
    :param options: of the path ``(..., T, K)``
    """
    control = ((transitions.options - options) * message).detach()
    return average(transitions, *steps) - control.sum((-2, -1))
