"""Ragged episodes: slices, batches, splits."""

import torch
from helpers import make_episodes

from pyro_options.data import Trajectories


def test_from_episodes_pads_and_drops_the_last_state():
    data = Trajectories.from_episodes([(torch.ones(3, 2), torch.tensor([0, 1])), (torch.ones(1, 2), torch.tensor([2]))])
    assert data.lengths.tolist() == [2, 1] and data.mask.tolist() == [[True, True], [True, False]]
    assert data.num_actions == 3 and data.num_steps == 3 and data.states[1, 1].tolist() == [0, 0]


def test_minibatches_cover_everything_once_and_know_their_population():
    data = make_episodes(7)
    batches = list(data.minibatches(3, torch.Generator().manual_seed(0)))
    assert [len(b) for b in batches] == [3, 3, 1] and all(b.population == 7 for b in batches)
    seen = torch.cat([b.states for b in batches]).flatten(1)
    assert {tuple(r) for r in seen.tolist()} == {tuple(r) for r in data.states.flatten(1).tolist()}


def test_a_subset_is_a_data_set_of_its_own():
    data = make_episodes(7)
    assert data[[0, 3]].population == 2 and data[2].states.shape[0] == 1 and data[:3].num_actions == data.num_actions


def test_split_is_by_episode_and_by_seed():
    data = make_episodes(10)
    train, held = data.split(0.3, seed=1)
    assert (len(train), len(held)) == (7, 3)
    again = data.split(0.3, seed=1)[1]
    assert torch.equal(held.states, again.states) and not torch.equal(held.states, data.split(0.3, seed=2)[1].states)


def test_steps_put_states_and_one_hot_actions_side_by_side():
    data = make_episodes(4)
    steps = data.steps()
    assert steps.shape == (4, 5, 3 + 4)
    assert torch.equal(steps[..., 3:].argmax(-1)[data.mask], data.actions[data.mask])


def test_repr_shows_shapes():
    text = repr(make_episodes(6))
    assert "6 episodes" in text and "4 discrete actions" in text and "states 3" in text
