"""Fits of policies and terminations to steps whose options are known: the second half of an alternation."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from pyro_options.growth.growable import growables
from pyro_options.options.policies import LogScale, rows_of_each

#: standard deviation of a Gaussian prior on the parameters of options, in units of standardized states and actions. It
#: keeps the fit to a few steps from being certain about everything else
PRIOR_SCALE = 3.0

#: smallest log standard deviation of a Gaussian policy while it is fitted, in units of the actions: as above
SMALLEST_LOG_SCALE = -3.0


def component_parameters(module: nn.Module) -> list[nn.Parameter]:
    """The parameters of the options, without those of a network that they share."""
    return [getattr(layer, name) for layer in growables([module]) for name in layer.component_axes]


def minimize(loss: Callable[[], Tensor], parameters: list[nn.Parameter], steps: int) -> None:
    """Minimizes a full-batch loss by L-BFGS."""
    how = {"max_iter": steps, "history_size": 10, "tolerance_grad": 1e-6, "tolerance_change": 1e-9}
    optimizer = torch.optim.LBFGS(parameters, line_search_fn="strong_wolfe", **how)

    def closure() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        return value

    optimizer.step(closure)
    optimizer.zero_grad(set_to_none=True)


def penalty(parameters: list[nn.Parameter]) -> Tensor:
    """Minus the log density of the Gaussian prior, up to a constant."""
    return torch.stack([p.square().sum() for p in parameters]).sum() / (2 * PRIOR_SCALE**2)


def fit_policy(policy: Any, states: Tensor, actions: Tensor, options: Tensor, steps: int) -> None:
    """Maximizes the posterior density of a policy's parameters, each option given its own steps.

    :param states: ``(S, D)``
    :param options: of each step, ``(S,)``
    """
    own = component_parameters(policy)
    rows, mask = rows_of_each(options, policy.num_options)
    taken = actions[rows]

    def loss() -> Tensor:
        log_prob = policy.own_log_prob(policy.features(states)[rows], taken)
        return (penalty(own) - log_prob[mask].sum()) / len(options)

    minimize(loss, list(policy.parameters()), steps)
    bound_certainty(policy)


def fit_each(policy: Any, states: Tensor, actions: Tensor, mask: Tensor, steps: int) -> None:
    """The same for options that each have a set of steps of their own, which may overlap; a shared network is kept.

    :param states: ``(K, B, D)``
    :param mask: of steps that exist, ``(K, B)``
    """
    parameters = component_parameters(policy)
    with torch.no_grad():
        features = policy.features(states)

    def loss() -> Tensor:
        log_prob = policy.own_log_prob(features, actions)  # (K, B)
        return (penalty(parameters) - (log_prob * mask).sum()) / mask.sum()

    minimize(loss, parameters, steps)
    bound_certainty(policy)


def fit_termination(termination: nn.Module, states: Tensor, options: Tensor, stops: Tensor, steps: int) -> None:
    """Logistic regression of the terminations of each option on the states where it may terminate.

    :param states: that an option arrives in, ``(S, D)``
    :param options: those options ``(S,)``
    :param stops: whether they terminated there ``(S,)``
    """
    own = component_parameters(termination)

    def loss() -> Tensor:
        logits = termination(states).gather(-1, options.unsqueeze(-1)).squeeze(-1)
        error = nn.functional.binary_cross_entropy_with_logits(logits, stops.to(logits.dtype), reduction="sum")
        return (penalty(own) + error) / max(1, len(options))

    minimize(loss, list(termination.parameters()), steps)


@torch.no_grad()
def bound_certainty(policy: nn.Module) -> None:
    """Bounds the standard deviations of Gaussian policies from below."""
    for layer in growables([policy]):
        if isinstance(layer, LogScale):
            layer.value.clamp_(min=SMALLEST_LOG_SCALE)
