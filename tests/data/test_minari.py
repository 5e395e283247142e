"""Data sets of Minari: round trips are exact for every kind of space."""

import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from support.episodes import (
    assert_same_trajectories,
    make_continuous_episodes,
    make_episodes,
    make_packed_episodes,
)

from pyro_options.data import Trajectories, from_minari, to_minari
from pyro_options.envs import message_demonstrations
from pyro_options.errors import InputError

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")
EpisodeBuffer = minari.data_collector.EpisodeBuffer


@pytest.fixture(autouse=True)
def datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def several_integers():
    data = make_episodes()
    other = torch.randint(3, data.actions.shape)
    return Trajectories(data.states, torch.stack([data.actions, other], -1), data.lengths, (data.num_actions, 3))


def bounded():
    data = make_continuous_episodes(dtype=torch.float64)
    bounds = torch.tensor([[-100.0], [100.0]]).double().expand(2, data.action_dim)
    return Trajectories(data.states, data.actions, data.lengths, action_bounds=bounds)


KINDS = {
    "discrete": make_episodes,
    "continuous": lambda: make_continuous_episodes(dtype=torch.float64),
    "several integers": lambda: several_integers(),
    "bounded": lambda: bounded(),
    "packed": lambda: make_packed_episodes(num_bytes=128),
}


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_is_exact(kind):
    data = KINDS[kind]()
    data = data[data.lengths.argsort(descending=True)]
    T = int(data.lengths.max())
    data = data.cut(T)
    dataset = to_minari(data, "test/data-v0")
    assert dataset.total_steps == data.num_steps and len(dataset[0].observations) == T + 1
    assert np.isnan(dataset[0].rewards).all() and dataset[0].truncations[-1]
    again = from_minari("test/data-v0", packed=data.packed)
    assert_same_trajectories(data, again)
    known = data.action_bounds is not None
    assert torch.equal(again.action_bounds, data.action_bounds) if known else again.action_bounds is None


def test_an_environment_is_recorded_and_rewards_are_kept():
    data = message_demonstrations(3, 5)
    rewards = torch.zeros(5, 5)
    rewards[:, -1] = 1
    env = gym.make("pyro_options/Message-v0", num_messages=3)
    dataset = to_minari(data, "message/expert-v0", env, rewards, author="somebody")
    assert dataset.recover_environment().unwrapped.num_messages == 3
    assert [episode.rewards.sum() for episode in dataset.iterate_episodes()] == [1.0] * 5
    assert_same_trajectories(data, from_minari(dataset))


def make_dataset(observation_space, action_space, lengths=(3, 5)):
    """A data set as Minari's own collector lays it out, and its observations and actions."""
    observation_space.seed(0)
    action_space.seed(0)

    def stack(space, items):
        if isinstance(space, spaces.Dict):
            return {name: stack(part, [item[name] for item in items]) for name, part in space.spaces.items()}
        if isinstance(space, spaces.Tuple):
            return tuple(stack(part, [item[i] for item in items]) for i, part in enumerate(space.spaces))
        return np.stack(items)

    samples, buffers = [], []
    for T in lengths:
        observations = [observation_space.sample() for _ in range(T + 1)]
        actions = [action_space.sample() for _ in range(T)]
        samples.append((observations, actions))
        buffers.append(
            EpisodeBuffer(
                observations=stack(observation_space, observations),
                actions=stack(action_space, actions),
                rewards=np.zeros(T),
                terminations=np.arange(T) == T - 1,
                truncations=np.zeros(T, dtype=bool),
            )
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        dataset = minari.create_dataset_from_buffers(
            "test/spaces-v0", buffers, observation_space=observation_space, action_space=action_space
        )
    return dataset, samples


PLAIN = spaces.Box(-1, 1, (2, 3), np.float32)
SPACES = {
    "Box": PLAIN,
    "float64": spaces.Box(-1, 1, (3,), np.float64),
    "bytes": spaces.Box(0, 255, (4,), np.uint8),
    "Discrete": spaces.Discrete(4, start=2),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "Dict": spaces.Dict({"b": PLAIN, "a": spaces.Discrete(3)}),
    "Tuple": spaces.Tuple((spaces.Discrete(3), spaces.Dict({"x": PLAIN}))),
}


@pytest.mark.parametrize("observations", SPACES.values(), ids=SPACES.keys())
@pytest.mark.parametrize("actions", [spaces.Discrete(3, start=-1), PLAIN], ids=["Discrete", "Box"])
def test_observations_are_flattened_as_gymnasium_does(observations, actions):
    dataset, samples = make_dataset(observations, actions)
    data = from_minari(dataset)
    assert data.lengths.tolist() == [3, 5] and data.state_dim == spaces.flatdim(observations)
    assert data.discrete == isinstance(actions, spaces.Discrete)
    for i, (seen, done) in enumerate(samples):
        for t, action in enumerate(done):
            assert np.array_equal(data.states[i, t].numpy(), spaces.flatten(observations, seen[t]))
            expected = action + 1 if data.discrete else action.reshape(-1)
            assert np.array_equal(data.actions[i, t].numpy(), expected)


def test_nested_observations_survive_a_round_trip():
    class Env(gym.Env):
        observation_space, action_space = SPACES["Tuple"], PLAIN

    dataset, _ = make_dataset(Env.observation_space, Env.action_space)
    data = from_minari(dataset)
    again = to_minari(data, "test/again-v0", Env())
    assert again.observation_space == Env.observation_space
    assert_same_trajectories(data, from_minari("test/again-v0"))


def test_images_and_shifted_actions_are_kept_exactly():
    class Env(gym.Env):
        observation_space, action_space = spaces.Box(0, 255, (32, 32), np.uint8), spaces.Discrete(3, start=5)

    states = torch.randint(256, (2, 3, 32 * 32), dtype=torch.uint8)
    data = Trajectories(states, torch.tensor([[0, 1, 2]] * 2), num_actions=3, packed=True)
    dataset = to_minari(data, "test/images-v0", Env())
    assert dataset[0].actions.tolist() == [5, 6, 7] and dataset[0].observations.shape == (4, 32, 32)
    assert_same_trajectories(data, from_minari(dataset, packed=True))


def test_states_that_are_not_observations_are_refused():
    env = gym.make("FrozenLake-v1")
    data = Trajectories(torch.randn(2, 3, 16), torch.zeros(2, 3, dtype=torch.int64), num_actions=4)
    with pytest.raises(ValueError, match=r"others at episode 0\. Leave env out"):
        to_minari(data, "test/lake-v0", env)
    with pytest.raises(ValueError, match="states of size 16"):
        to_minari(make_episodes(), "test/lake-v0", env)
    with pytest.raises(ValueError, match="4 discrete actions but got 3"):
        to_minari(Trajectories(data.states, data.actions, num_actions=3), "test/lake-v0", env)


@pytest.mark.parametrize(
    "observations, actions, message",
    [
        (PLAIN, spaces.MultiBinary(3), "Discrete or real"),
        (spaces.Box(0, 2**31, (1,), np.int64), PLAIN, "test/spaces-v0: .*larger ones at episode 0"),
    ],
)
def test_unsupported_spaces_are_refused(observations, actions, message):
    with pytest.raises(ValueError, match=message):
        from_minari(make_dataset(observations, actions)[0])


def test_a_missing_package_is_reported_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ImportError, match=r'pip install "pyro-options\[minari\]"'):
        from_minari("test/data-v0")


def raw_dataset(observed, acted, observations, actions, num_steps=3):
    """One episode of exactly these arrays, whether they fit or not."""
    ends = np.arange(num_steps) == num_steps - 1
    buffer = EpisodeBuffer(
        observations=observations, actions=actions, rewards=np.zeros(num_steps), terminations=ends, truncations=~ends
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return minari.create_dataset_from_buffers(
            "test/raw-v0", [buffer], observation_space=observed, action_space=acted
        )


PAIR, THREE = spaces.Box(-9, 9, (2,), np.float32), spaces.Discrete(3)
ENDS_LATER = spaces.Discrete(3, start=1)


def zeros(*shape):
    return np.zeros(shape, dtype=np.float32)


@pytest.mark.parametrize(
    "observed, acted, observations, actions, message",
    [
        (PAIR, THREE, zeros(3, 2), [0, 1, 2], r"observations of shape \(4, 2\) but got \(3, 2\)"),
        (spaces.Box(-9, 9, (4,)), THREE, zeros(3, 4), [0, 1, 2], r"shape \(4, 4\) but got \(3, 4\)"),
        (PAIR, THREE, zeros(8, 2), [0, 1, 2], r"shape \(4, 2\) but got \(8, 2\)"),
        (PAIR, THREE, zeros(4, 3), [0, 1, 2], r"shape \(4, 2\) but got \(4, 3\)"),
        (PAIR, PAIR, zeros(4, 2), zeros(6, 2), r"actions of shape \(3, 2\) but got \(6, 2\)"),
        (PAIR, THREE, zeros(4, 2), [0, 1, 2, 1], r"actions of shape \(3,\) but got \(4,\)"),
        (PAIR, THREE, zeros(4, 2), [0, 1, 7], "actions that are values of"),
        (spaces.Dict(a=PAIR), THREE, {"a": zeros(3, 2)}, [0, 1, 2], r"observations 'a' of shape \(4, 2\)"),
        (spaces.Dict(a=PAIR), THREE, {"a": zeros(9, 2)}, [0, 1, 2], r"observations 'a' of shape \(4, 2\)"),
        (spaces.Tuple((PAIR,)), THREE, (zeros(9, 2),), [0, 1, 2], r"observations 0 of shape \(4, 2\)"),
        (THREE, THREE, np.array([0, 1, 5, 0]), [0, 1, 2], "observations that are values of"),
        (ENDS_LATER, THREE, np.array([1, 1, 0, 1]), [0, 1, 2], "observations that are values of"),
    ],
)
def test_episodes_that_do_not_fit_are_refused(observed, acted, observations, actions, message):
    dataset = raw_dataset(observed, acted, observations, np.array(actions))
    with pytest.raises(ValueError, match=f"test/raw-v0: Expected .*{message}.* at episode 0"):
        from_minari(dataset)


def test_some_episodes_several_data_sets_and_single_episodes():
    data = make_episodes(6)
    dataset = to_minari(data, "test/one-v0")
    to_minari(data[:2].alone(), "test/two-v0")
    assert_same_trajectories(from_minari("test/one-v0", episodes=[3, 1]), data[[3, 1]].cut(5).alone())
    joined = from_minari(["test/one-v0", "test/two-v0"])
    assert len(joined) == 8 and torch.equal(joined.lengths, torch.cat([data.lengths, data.lengths[:2]]))
    some = from_minari(dataset.iterate_episodes([0, 1]))
    assert torch.equal(some.states, data[:2].states[:, : int(data.lengths[:2].max())]) and some.discrete
    with pytest.raises(InputError, match="a Minari data set, its id, or episodes but got int"):
        from_minari(7)
    with pytest.raises(InputError, match="a list of episodes already"):
        from_minari(dataset.iterate_episodes(), episodes=[0])
