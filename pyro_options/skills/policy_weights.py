"""The weights of linear policies in the units of the states, and their uncertainty."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pyro_options.errors import InputError, check
from pyro_options.nn.standardized_inputs import StandardizedInputs
from pyro_options.nn.varying_inputs import VaryingInputs
from pyro_options.options.policies import CategoricalPolicy, GaussianPolicy

if TYPE_CHECKING:
    from .skills import Skills


@dataclass(frozen=True)
class PolicyWeights:
    """The regression of actions on the state that each option is, in the units of the data.

    For n discrete actions there are A = n - 1 outputs: the log odds of actions 1, 2, … against action 0. For continuous
    actions the outputs are their means. Entries of the state that never vary in the demonstrations have weight zero.
    """

    weight: Tensor  # (K, A, D)
    bias: Tensor  # (K, A)


def unit_map(policy: nn.Module) -> Tensor:
    """The matrix ``(D + 1, F + 1)`` from a head on features, its bias last, to weights and bias on the whole state."""
    network, D = policy.network, policy.state_dim
    if isinstance(network, nn.Sequential) and len(network) == 0:
        return torch.eye(D + 1, dtype=torch.float64)
    if not isinstance(network, VaryingInputs):
        raise InputError(f"Expected linear policies but got the state network {network}. Discover with hidden=().")
    F = network.out_features
    center, scale = torch.zeros(F, dtype=torch.float64), torch.ones(F, dtype=torch.float64)
    if isinstance(network, StandardizedInputs):
        center, scale = network.center.double().cpu(), network.scale.double().cpu()
    matrix = torch.zeros(D + 1, F + 1, dtype=torch.float64)
    matrix[network.index.cpu(), torch.arange(F)] = 1 / scale
    matrix[D, :F] = -center / scale
    matrix[D, F] = 1.0
    return matrix


def output_map(policy: nn.Module) -> Tensor:
    """The matrix ``(A, out)`` from the outputs of a head to those of :class:`PolicyWeights`, without ``center``."""
    if isinstance(policy, CategoricalPolicy):
        n = policy.num_actions
        check(n >= 2, "at least two actions", n)
        return torch.cat([-torch.ones(n - 1, 1), torch.eye(n - 1)], -1).double()
    check(isinstance(policy, GaussianPolicy), "discrete or continuous actions, not mixed ones", type(policy).__name__)
    return torch.diag(policy.unit.double().cpu())


def policy_weights(skills: "Skills") -> PolicyWeights:
    """The weights of linear policies (``hidden=()``) in the units of the states and actions."""
    policy = skills.policy
    heads = torch.cat([policy.heads.weight, policy.heads.bias.unsqueeze(-1)], -1).double().cpu()  # (K, out, F + 1)
    full = torch.einsum("ao,kof,df->kad", output_map(policy), heads, unit_map(policy))
    if isinstance(policy, GaussianPolicy):
        full[..., -1] += policy.center.double().cpu()
    return PolicyWeights(full[..., :-1], full[..., -1])
