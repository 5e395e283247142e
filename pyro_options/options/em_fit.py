r"""Expectation maximization over the heads of policies and terminations, given the posterior of the path.

Gaussian dimensions have their best values in closed form (:func:`~pyro_options.options.gaussian_fit.ridge`); where they
saturate, what would have been commanded is expected too
(:func:`~pyro_options.options.gaussian_fit.censored_moments`). Logits, those of categorical dimensions and of
terminations, take one step against a quadratic bound of their expected log-likelihood: the curvature of a softmax is at
most :math:`\tfrac12(I - \tfrac1A 1 1^T)` and that of a logistic function :math:`\tfrac14` (Böhning, 1992). A step
against half of a bound never lowers what is bounded, and no learning rate has to be chosen.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from .gaussian_fit import (
    GaussianSums,
    Moments,
    censored_moments,
    fit_gaussians,
    has_gaussians,
    observed_moments,
    weighted_sums,
)
from .path import PathPosterior
from .policies import CategoricalPolicy, MixedPolicy, Termination

#: inputs at most: the cost grows with their square
MOST_INPUTS = 128

#: standard deviation of a Gaussian prior on coefficients without another one, in units of standardized states and
#: actions. It keeps equations solvable, and logits finite where the data can be separated
PRIOR_SCALE = 3.0

#: half of the largest curvature of a softmax along one logit, and of a logistic function
SOFTMAX_BOUND, LOGISTIC_BOUND = 0.25, 0.125


class HeadSums(NamedTuple):
    """Sums over steps that determine one step of expectation maximization, each with one entry for every option."""

    gram: Tensor  # (K, P, P) of inputs by inputs, weighted by the posterior
    cross: Tensor  # (K, P, A) of inputs by standardized actions, of A Gaussian dimensions
    squares: Tensor  # (K, A) of squared actions
    count: Tensor  # (K,) of weights
    slope: Tensor  # (K, P, C) gradient with respect to the logits of categorical dimensions
    stop_gram: Tensor  # (K, Q, Q) of the inputs of terminations, weighted by the posterior and the curvature
    stop_slope: Tensor  # (K, Q) gradient with respect to their logits


def _inputs(heads: Any, states: Tensor) -> Tensor:
    """Features of the states and a one for the bias, ``(n, P)`` in double precision."""
    network, _ = heads.state_layer()
    features = (states if network is None else network(states)).double()
    return torch.cat([features, torch.ones_like(features[:, :1])], -1)


def can_be_fitted(policy: Any, termination: Any) -> bool:
    """Whether these are linear, with Gaussian dimensions, and few enough inputs.

    With a network that is trained as well, the best heads for what it is now would not be the best ones. Logits alone
    are left to gradients: Adam's steps are small enough for them, and an optimum that few episodes determine is worse
    on others than what a training of limited length reaches (five known options in 27 episodes: held out -0.86 nats
    instead of -0.74).
    """
    if not has_gaussians(policy) or not isinstance(termination, Termination):
        return False
    linear = not any(list(part.network.parameters()) for part in (policy, termination))
    return linear and policy.heads.in_features <= MOST_INPUTS


def _precision(gram: Tensor, scale: float | None) -> Tensor:
    """Precisions of the prior on weights and, last, on the bias, ``(P,)``.

    :param scale: standard deviation of the prior on weights
    """
    found = gram.new_full(gram.shape[-1:], PRIOR_SCALE**-2)
    if scale is not None:
        found[:-1] = scale**-2
    return found


def _moments(policy: Any, means: Tensor, actions: Tensor) -> Moments:
    """Expected Gaussian dimensions, standardized, and their squares.

    :param means: outputs of the heads ``(n, K, A)``
    :param actions: ``(n, A)``
    """
    real, low, high = ((one.double() - policy.center) / policy.unit for one in (actions, policy.low, policy.high))
    if not policy.saturates:
        return observed_moments(real)
    return censored_moments(real, low, high, means, policy.standardized_log_scale().double())


def _residuals(policy: Any, states: Tensor, actions: Tensor) -> tuple[Moments, Tensor]:
    """Moments of the Gaussian dimensions, and one-hot choices minus their probabilities ``(n, K, C)``."""
    outputs = policy.outputs(states).double()
    if isinstance(policy, CategoricalPolicy):
        chosen = one_hot(actions.long(), policy.num_actions).unsqueeze(1)
        return observed_moments(outputs.new_zeros(len(states), 0)), chosen - outputs.softmax(-1)
    if not isinstance(policy, MixedPolicy):
        return _moments(policy, outputs, actions), outputs[..., :0]
    layout = policy.layout
    index, _ = layout.indices(actions, policy.heads.weight)
    means, *blocks = outputs.split(layout.sizes, -1)
    parts = [one_hot(index[:, i], part.shape[-1]).unsqueeze(1) - part.softmax(-1) for i, part in enumerate(blocks)]
    return _moments(policy, means, actions[..., layout.real]), torch.cat([outputs[..., :0], *parts], -1)


@torch.no_grad()
def head_sums(
    policy: Any, termination: Any, states: Tensor, actions: Tensor, mask: Tensor, posterior: PathPosterior
) -> HeadSums:
    """The sums over some episodes.

    :param states: ``(N, T, D)``
    :param mask: ``(N, T)``
    """
    weights = posterior.options[mask].double()  # (n, K)
    inputs = _inputs(policy, states[mask])
    real, wrong = _residuals(policy, states[mask], actions[mask])
    sums = weighted_sums(inputs, real, weights)
    slope = torch.einsum("nk,nkc,np->kpc", weights, wrong, inputs)

    later = mask[:, 1:]
    before = posterior.options[:, :-1][later].double()
    stays = (posterior.options - posterior.starts)[:, 1:][later].double()
    arrived = states[:, 1:][later]
    stop = termination(arrived).double().sigmoid()
    curvature = before * (stop * (1 - stop)).clamp(min=LOGISTIC_BOUND)
    stop_inputs = _inputs(termination, arrived)
    stop_gram = torch.stack([(stop_inputs * one.unsqueeze(-1)).T @ stop_inputs for one in curvature.T])
    stop_slope = (before - stays - before * stop).T @ stop_inputs
    return HeadSums(*sums, slope, stop_gram, stop_slope)


def _bounded_step(
    heads: Any, gram: Tensor, slope: Tensor, first: int, precision: Tensor, options: Sequence[int]
) -> None:
    """Moves the outputs from ``first`` on by the slope of their log posterior, divided by the curvature.

    :param gram: ``(K, P, P)``
    :param slope: of the log-likelihood, ``(K, P, C)``
    """
    size, prior = slope.shape[-1], torch.diag(precision)
    for k in options:
        weight, bias = heads.weight[k, first : first + size], heads.bias[k, first : first + size]
        now = torch.cat([weight, bias.unsqueeze(-1)], -1).to(gram)  # (C, P)
        step = torch.linalg.solve(gram[k] + prior, slope[k] - precision.unsqueeze(-1) * now.T).T
        weight += step[:, :-1].to(weight)
        bias += step[:, -1].to(bias)


@torch.no_grad()
def fit_heads(
    policy: Any,
    termination: Any,
    sums: HeadSums,
    options: Sequence[int] | None = None,
    scale: float | None = None,
) -> None:
    """One step of expectation maximization over the heads of some options, by default all.

    :param scale: standard deviation of a Gaussian prior on their weights; biases have none but :data:`PRIOR_SCALE`
    """
    chosen = range(policy.num_options) if options is None else options
    real, precision = sums.squares.shape[-1], _precision(sums.gram, scale)
    if real:
        fit_gaussians(policy, GaussianSums(*sums[:4]), precision, -math.inf, chosen)
    if sums.slope.shape[-1]:
        _bounded_step(policy.heads, SOFTMAX_BOUND * sums.gram, sums.slope, real, precision, chosen)
    prior = _precision(sums.stop_gram, scale)
    _bounded_step(termination.heads, sums.stop_gram, sums.stop_slope.unsqueeze(-1), 0, prior, chosen)
