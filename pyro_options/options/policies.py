"""Low-level policies and terminations: a state network, then one head per option."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from pyro_options.errors import check
from pyro_options.growth.growable import Growable, GrowableHeads
from pyro_options.nn.networks import mlp, output_size
from pyro_options.nn.shared_product import ReadsStates, shared_product

from .actions import CategoricalActions, GaussianActions


class _OptionHeads(ReadsStates, nn.Module):
    """A state network shared by all options and a linear head for each.

    :param state_dim: size of a state
    :param hidden: widths of the shared network; ``()`` gives each option a single linear layer on the state
    :param network: your own state network instead, mapping ``(..., state_dim)`` to ``(..., features)``
    """

    def __init__(
        self,
        state_dim: int,
        num_options: int,
        out_features: int,
        hidden: Sequence[int] = (),
        network: nn.Module | None = None,
    ):
        super().__init__()
        check(state_dim >= 1, "state_dim >= 1", state_dim)
        check(num_options >= 1, "num_options >= 1", num_options, "Start with at least one option.")
        if network is None:
            network, features = mlp(state_dim, hidden)
        else:
            features = output_size(network, state_dim)
        self.state_dim, self.network = state_dim, network
        self.heads = GrowableHeads(features, num_options, out_features)

    @property
    def num_options(self) -> int:
        return self.heads.num_components

    def state_layer(self):
        network = self.network
        return None if isinstance(network, nn.Sequential) and len(network) == 0 else network, self.heads

    def outputs(self, states: Tensor) -> Tensor:
        """``(..., T, K, out)``."""
        return self.read(states)


class CategoricalPolicy(_OptionHeads):
    """π_k(a | s) over ``num_actions`` discrete actions."""

    def __init__(self, state_dim, num_options, num_actions, hidden=(), network=None):
        check(num_actions >= 1, "num_actions >= 1", num_actions)
        super().__init__(state_dim, num_options, num_actions, hidden, network)
        self.num_actions = num_actions

    def distribution(self, outputs: Tensor, path=None, mask: Tensor | None = None) -> CategoricalActions:
        """Actions from what the heads gave."""
        return CategoricalActions(outputs, path, mask)

    def forward(self, states: Tensor, path: Tensor | None = None, mask: Tensor | None = None) -> CategoricalActions:
        return self.distribution(self.outputs(states), path, mask)


class _LogScale(Growable, nn.Module):
    """A free log standard deviation per option and action dimension."""

    component_axes = {"value": 0}

    def __init__(self, num_options: int, action_dim: int):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(num_options, action_dim))

    def forward(self) -> Tensor:
        return self.value


class GaussianPolicy(_OptionHeads):
    """π_k(a | s) as a diagonal Gaussian over ``action_dim`` continuous actions.

    :param min_log_scale: lower bound of the log standard deviation; keeps the density finite on repeated actions
    """

    def __init__(self, state_dim, num_options, action_dim, hidden=(), network=None, min_log_scale: float = -5.0):
        check(action_dim >= 1, "action_dim >= 1", action_dim)
        super().__init__(state_dim, num_options, action_dim, hidden, network)
        self.action_dim, self.min_log_scale = action_dim, min_log_scale
        self.log_scale = _LogScale(num_options, action_dim)

    def distribution(self, outputs: Tensor, path=None, mask: Tensor | None = None) -> GaussianActions:
        """Actions from what the heads gave."""
        return GaussianActions(outputs, self.log_scale().clamp(min=self.min_log_scale), path, mask)

    def forward(self, states: Tensor, path: Tensor | None = None, mask: Tensor | None = None) -> GaussianActions:
        return self.distribution(self.outputs(states), path, mask)


class Termination(_OptionHeads):
    """logit ψ_k(s): the chance that option k stops on arriving in state s.

    :param initial_logit: the bias that every option, also one born later, starts from
    """

    def __init__(self, state_dim, num_options, hidden=(), network=None, initial_logit: float = 0.0):
        super().__init__(state_dim, num_options, 1, hidden, network)
        self.initial_logit = initial_logit

    def logits(self, outputs: Tensor) -> Tensor:
        """``(..., T, K)`` from what the heads gave."""
        logits = outputs.squeeze(-1)
        return logits + self.initial_logit if self.initial_logit else logits

    def forward(self, states: Tensor) -> Tensor:
        return self.logits(self.outputs(states))


def option_heads(policy: nn.Module, termination: nn.Module, states: Tensor) -> tuple[Callable, Tensor]:
    """What every option would do in these states: the actions, as a function of path and mask, and logit ψ.

    The same as calling the two in turn, with one product for both where they read the same features.
    """
    with shared_product(states, policy, termination):
        logits = termination(states)
        if not isinstance(policy, _OptionHeads):
            return lambda path=None, mask=None: policy(states, path, mask), logits
        outputs = policy.outputs(states)
        return lambda path=None, mask=None: policy.distribution(outputs, path, mask), logits
