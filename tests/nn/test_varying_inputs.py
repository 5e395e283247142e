"""Entries of a state that never vary are left out of networks."""

import pytest
import torch
from torch.testing import assert_close

from pyro_options.data import Trajectories, unpack_bits
from pyro_options.discovery import build
from pyro_options.infer import TrainConfig, Trainer
from pyro_options.nn import VaryingInputs


def bits(num_episodes=20, num_steps=6, varying=(1, 4, 5)):
    """Eight bits, most of them stuck at one or zero; actions follow bit 1."""
    states = torch.tensor([1.0, 0, 0, 1, 0, 0, 1, 0]).repeat(num_episodes, num_steps, 1)
    states[..., list(varying)] = torch.randint(2, (num_episodes, num_steps, len(varying))).float()
    lengths = torch.arange(num_episodes) % num_steps + 1
    return Trajectories(states, states[..., 1].long(), lengths, 2)


def test_finds_what_varies_over_steps_in_use():
    data = bits()
    inputs = VaryingInputs.from_states(data.states, data.mask)  # padding is zero: a stuck one must not seem to vary
    assert inputs.index.tolist() == [1, 4, 5]
    assert_close(inputs(data.states), data.states[..., [1, 4, 5]])
    assert VaryingInputs.from_states(torch.ones(2, 3, 4), torch.ones(2, 3).bool()).index.tolist() == [0]


@pytest.mark.parametrize("index", [torch.tensor([], dtype=torch.long), torch.tensor([8]), torch.tensor([-1])])
def test_refuses_bad_entries(index):
    with pytest.raises(ValueError, match="Expected"):
        VaryingInputs(index, 8)


@pytest.mark.parametrize("hidden", [(), (5,)])
@pytest.mark.parametrize("guide", ["exact", "paper"])
def test_constant_entries_are_ignored_after_training(guide, hidden):
    data = bits()
    method = build(None, data, guide=guide, num_options=2, hidden=hidden)
    config = TrainConfig(epochs=30, learning_rate=0.05, batch_size=10, progress=False, device="cpu")
    history = Trainer(method.model, method.guide, data, config).run()
    assert history.objective[-1] > history.objective[0]
    moved = data.states.clone()
    moved[..., 0] = 0.5
    assert_close(method.model.policy(moved).logits, method.model.policy(data.states).logits)
    assert method.model.policy(data.states).logits.std(0).max() > 0


def test_packed_bytes_give_the_same_inputs_as_their_bits():
    torch.manual_seed(0)
    packed = torch.randint(0, 4, (20, 6, 3), dtype=torch.uint8) << 3
    mask = torch.rand(20, 6) < 0.8
    mask[:, 0] = True
    packed[~mask] = 255  # padding that differs must not seem to vary
    whole = VaryingInputs.from_states(unpack_bits(packed), mask)
    direct = VaryingInputs.from_bytes(packed, mask)
    assert direct.index.tolist() == whole.index.tolist() and direct.state_dim == 24
    constant = VaryingInputs.from_bytes(torch.ones(2, 3, 1, dtype=torch.uint8), torch.ones(2, 3).bool())
    assert constant.index.tolist() == [0] and constant.state_dim == 8
