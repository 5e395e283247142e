"""In which states options start and stop."""

import pytest
import torch

from pyro_options.data import Trajectories, pack_bits
from pyro_options.skills import Places, Segmentation, find_places


def walks(num_episodes=20, num_steps=24):
    """Two options that alternate every six steps; option 1 starts where entry 1 is 2, and stops where it is 5."""
    torch.manual_seed(0)
    options = (torch.arange(num_steps) // 6 % 2).expand(num_episodes, -1)
    states = torch.randn(num_episodes, num_steps, 3)
    time = torch.arange(num_steps)
    states[:, time % 12 == 6, 1] = 2 + 0.01 * torch.randn(num_episodes, int((time % 12 == 6).sum()))
    states[:, (time % 12 == 0) & (time > 0), 1] = 5.0
    states[..., 2] = (states[..., 2] > 0).float()
    states[:, time % 12 == 6, 2] = 1.0
    lengths = torch.full((num_episodes,), num_steps)
    segmentation = Segmentation(options, torch.zeros(num_episodes, num_steps), lengths, torch.zeros(num_episodes), 3)
    return segmentation, states


def test_starts_and_stops_are_told_by_the_entries_that_differ():
    segmentation, states = walks()
    data = Trajectories(states, segmentation.options, num_actions=2).with_names(state_names=["x", "height", "key"])
    first, second, never = find_places(segmentation, data)
    start = {one.name: one for one in second.starts}
    assert set(start) == {"height", "key"} and start["key"].value == 1 and start["key"].low == 1.0
    assert start["height"].low == pytest.approx(2, abs=0.05) and start["height"].high == pytest.approx(2, abs=0.05)
    assert start["height"].usual_low < 0 < start["height"].usual_high
    assert [one.name for one in second.stops] == ["height"] and second.stops[0].low == second.stops[0].high == 5
    assert [one.name for one in first.starts] == ["height"]  # where the other stops, beginnings of episodes aside
    assert never == Places() and never.describe() == []
    lines = second.describe()
    assert (
        lines[0].startswith("starts where") and "key = 1 in 100% (usually 5" in lines[0] and "stops where" in lines[1]
    )
    assert Places.from_dict(second.to_dict()) == second


def test_bits_have_names_of_their_own():
    segmentation, states = walks()
    bits = torch.zeros(*states.shape[:2], 16)
    bits[..., 10] = states[..., 2]
    data = Trajectories(pack_bits(bits), segmentation.options, num_actions=2, packed=True)
    assert [one.name for one in find_places(segmentation, data)[1].starts] == ["byte 1, bit 5"]
    named = find_places(segmentation, data, ["score", "lives"])
    assert [one.name for one in named[1].starts] == ["lives, bit 5"]


def test_entries_with_two_values_are_told_by_a_share():
    segmentation, states = walks()
    signed = 2 * states[..., 2:] - 1
    (found,) = find_places(segmentation, Trajectories(signed, segmentation.options, num_actions=2))[1].starts
    assert found.value == 1 and found.low == found.high == 1 and 0.4 < found.usual_low < 0.7
    assert found.describe().startswith("state 0 = 1 in 100% (usually ")


def test_nothing_is_said_on_random_states_or_few_segments():
    segmentation, states = walks()
    data = Trajectories(torch.randn_like(states), segmentation.options, num_actions=2)
    assert all(one == Places() for one in find_places(segmentation, data))
    few, states = walks(num_episodes=2, num_steps=14)
    data = Trajectories(states, few.options, num_actions=2)
    assert find_places(few, data)[1] == Places()
