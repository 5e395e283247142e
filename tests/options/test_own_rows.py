"""Policies on rows that each belong to one option: the same as all options on all rows, without those not needed."""

import pytest
import torch
from torch.testing import assert_close

from pyro_options.options import CategoricalPolicy, GaussianPolicy, MixedPolicy
from pyro_options.options.families import CategoricalFamily, GaussianFamily
from pyro_options.options.policies import rows_of_each

K, B, D = 3, 7, 4


def categorical(hidden):
    return CategoricalPolicy(D, K, 5, hidden), torch.randint(0, 5, (K, B))


def gaussian(hidden):
    low, high = torch.tensor([-1.0, -torch.inf]), torch.tensor([1.0, 2.0])
    actions = torch.randn(K, B, 2).clamp(torch.tensor([-1.0, -9.0]), torch.tensor([1.0, 2.0]))
    return GaussianPolicy(D, K, 2, hidden, low=low, high=high, unit=torch.tensor([2.0, 0.5])), actions


def mixed(hidden):
    gripper = torch.randint(0, 2, (K, B)) * 2.0 - 1
    return MixedPolicy(D, K, [GaussianFamily(), CategoricalFamily((-1.0, 1.0))], hidden), torch.stack(
        [torch.randn(K, B), gripper], -1
    )


@pytest.mark.parametrize("make", [categorical, gaussian, mixed])
@pytest.mark.parametrize("hidden", [(), (6,)])
def test_own_rows_have_the_log_probability_of_their_option(make, hidden):
    torch.manual_seed(0)
    policy, actions = make(hidden)
    policy, states = policy.double(), torch.randn(K, B, D, dtype=torch.float64)
    actions = actions.double() if actions.is_floating_point() else actions
    if hasattr(policy, "log_scale"):
        torch.nn.init.normal_(policy.log_scale.value)
    own = torch.arange(K)
    expected = policy(states).component_log_prob(actions)[own, :, own]
    found = policy.own_log_prob(policy.features(states), actions)
    assert_close(found, expected)
    assert_close(*(torch.autograd.grad(x.sum(), policy.heads.weight)[0] for x in (found, expected)))


def test_every_row_belongs_to_its_option_once():
    options = torch.tensor([2, 0, 0, 2, 2, 0, 4])
    rows, mask = rows_of_each(options, 5)
    assert rows.shape == mask.shape == (5, 3)
    assert [own[there].tolist() for own, there in zip(rows, mask)] == [[1, 2, 5], [], [0, 3, 4], [], [6]]
