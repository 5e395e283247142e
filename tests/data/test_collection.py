"""Demonstrations are recorded from environments step by step and reproducibly."""

import random
import sys
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO

from pyro_options.data import collect, load_policy, rollout
from pyro_options.envs import MessageEnv, MessageExpert
from pyro_options.errors import FileError


class Counter(gym.Env):
    """Observes how many steps it has taken; pays the action; ends after seven of them."""

    observation_space = spaces.Box(0, 255, (2,), np.uint8)

    def __init__(self, action_space=None):
        self.action_space = spaces.Discrete(5, start=1) if action_space is None else action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.array([0, 3], dtype=np.uint8), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.time += 1
        return np.array([self.time, 3], dtype=np.uint8), float(np.sum(action)), self.time == 7, False, {}


def test_a_function_is_recorded_step_by_step():
    done = rollout(Counter(), lambda observation: 1 + int(observation[0]) % 5, 2)
    data = done.trajectories
    assert data.lengths.tolist() == [7, 7] and data.num_actions == 5
    assert data.states[0].tolist() == [[t, 3] for t in range(7)]
    assert data.actions[0].tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert done.rewards[0].tolist() == [1, 2, 3, 4, 5, 1, 2] and done.returns.tolist() == [18, 18]
    assert done.terminated.all()


def test_max_steps_cuts_episodes_and_noops_vary_their_start():
    done = rollout(Counter(), lambda _: 1, 20, max_steps=4, noops=3)
    data = done.trajectories
    assert set(data.states[:, 0, 0].tolist()) == {1.0, 2.0, 3.0}
    assert data.lengths.tolist() == [4] * 20 and done.terminated.sum() == (data.states[:, 0, 0] == 3).sum()


def test_observe_and_packed_choose_what_is_stored():
    data = collect(Counter(), lambda _: 1, 1, packed=True, observe=lambda env, seen: np.array([env.time], np.uint8))
    assert data.packed and data.stored.flatten().tolist() == list(range(7)) and data.state_dim == 8


def test_continuous_actions_are_flattened():
    env = Counter(spaces.Box(-1, 1, (2, 2), np.float32))
    data = collect(env, lambda _: np.full((2, 2), 0.5), 2)
    assert data.actions.shape == (2, 7, 4) and data.actions.dtype == torch.float32 and (data.actions == 0.5).all()


def test_seeds_reproduce_and_leave_the_callers_randomness_alone():
    def noisy(_):
        return 1 + int(torch.randint(2, ())) + np.random.randint(2) + random.randrange(2)

    def begin():
        for seed in (torch.manual_seed, np.random.seed, random.seed):
            seed(5)

    begin()
    expected = torch.rand(()), np.random.rand(), random.random()
    begin()
    runs = [collect(Counter(), noisy, 5, seed=seed, epsilon=0.5, noops=2) for seed in (1, 1, 2)]
    assert (torch.rand(()), np.random.rand(), random.random()) == expected
    assert torch.equal(runs[0].actions, runs[1].actions) and torch.equal(runs[0].states, runs[1].states)
    assert not torch.equal(runs[0].actions, runs[2].actions)


def test_epsilon_is_the_share_of_random_actions():
    actions = collect(Counter(), lambda _: 1, 300, epsilon=0.5).actions
    assert float((actions != 0).float().mean()) == pytest.approx(0.5 * 4 / 5, abs=0.04)
    assert (collect(Counter(), lambda _: 1, 3).actions == 0).all()


def test_a_policy_gets_its_recurrent_state_back():
    class Once:
        def predict(self, observation, state=None, episode_start=None, deterministic=True):
            state = 0 if episode_start[0] else state + 1
            return 1 + state % 5, state

    assert collect(Counter(), Once(), 2).actions.tolist() == [[0, 1, 2, 3, 4, 0, 1]] * 2


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    path = tmp_path_factory.mktemp("agents") / "ppo-CartPole-v1.zip"
    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, seed=0, device="cpu").save(path)
    return path


def test_a_saved_agent_acts(agent):
    runs = [collect("CartPole-v1", source, 3, max_steps=30) for source in (agent, str(agent), PPO.load(agent))]
    assert runs[0].num_actions == 2 and runs[0].state_dim == 4
    for run in runs[1:]:
        assert torch.equal(run.actions, runs[0].actions) and torch.equal(run.states, runs[0].states)


def test_an_agent_is_loaded_from_the_hugging_face_hub(agent, monkeypatch):
    asked = {}

    def load_from_hub(repo_id, filename):
        asked.update(repo_id=repo_id, filename=filename)
        return str(agent)

    monkeypatch.setitem(sys.modules, "huggingface_sb3", SimpleNamespace(load_from_hub=load_from_hub))
    assert len(collect("CartPole-v1", "sb3/ppo-CartPole-v1", 1, max_steps=5)) == 1
    assert asked == {"repo_id": "sb3/ppo-CartPole-v1", "filename": "ppo-CartPole-v1.zip"}


def test_files_that_hold_no_agent_are_refused_by_name(agent, tmp_path):
    whole = agent.read_bytes()
    files = {"ppo-a.zip": b"garbage", "ppo-b.zip": whole[: len(whole) // 2], "sac-c.zip": whole}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FileError, match=rf"{name}: Expected an agent .*algorithm="):
            load_policy(tmp_path / name)
    assert isinstance(load_policy(agent, algorithm="PPO"), PPO)


def test_loading_from_the_hub_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_sb3", None)
    with pytest.raises(ImportError, match=r'pip install "pyro-options\[hub\]"'):
        load_policy("sb3/ppo-CartPole-v1")


def test_unknown_policies_are_refused(agent, tmp_path):
    with pytest.raises(ValueError, match="neither"):
        load_policy("agents/absent.zip")
    (tmp_path / "mine.zip").write_bytes(agent.read_bytes())
    with pytest.raises(ValueError, match=r"algorithm of mine\.zip"):
        load_policy(tmp_path / "mine.zip")
    assert load_policy(tmp_path / "mine.zip", algorithm="ppo").predict(np.zeros(4, np.float32))[0] in (0, 1)
    with pytest.raises(ValueError, match="object with predict"):
        collect("CartPole-v1", 3, 1)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(num_episodes=0), "num_episodes >= 1"),
        (dict(max_steps=0), "max_steps >= 1"),
        (dict(epsilon=1.5), "epsilon in"),
        (dict(noops=-1), "noops >= 0"),
        (dict(num_episodes=2.5), "num_episodes >= 1, a whole number, but got 2.5"),
        (dict(max_steps=2.5), "max_steps >= 1, a whole number, but got 2.5"),
        (dict(noops=1.5), "noops >= 0, a whole number, but got 1.5"),
        (dict(seed=-1), "seed >= 0"),
        (dict(seed=None), "seed >= 0"),
        (dict(seed=2**32), "seed < 2"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        collect(MessageEnv(), MessageExpert(), **{"num_episodes": 1, **options})


def test_bad_environments_are_refused():
    with pytest.raises(ValueError, match="not vectorized"):
        collect(gym.make_vec("CartPole-v1", 2), lambda _: 0, 1)
    with pytest.raises(ValueError, match="Discrete actions, or a Box"):
        collect(Counter(spaces.MultiBinary(3)), lambda _: 0, 1)
    with pytest.raises(ValueError, match="a Box of real numbers"):
        collect(Counter(spaces.Box(0, 3, (1,), np.int64)), lambda _: [1], 1)


def test_recorded_steps_are_copies():
    """Whatever a policy writes into its observation, and an environment into its action."""

    class Careless(Counter):
        def step(self, action):
            step = super().step(action)
            action[:] = 9
            return step

    buffer = np.zeros(1, dtype=np.float32)

    def refill(observation):
        buffer[:] = observation[0]
        observation[:] = 200
        return buffer

    for env in (Counter, Careless):
        data = collect(env(spaces.Box(0, 255, (1,), np.float32)), refill, 1)
        assert data.states[0].tolist() == [[t, 3] for t in range(7)]
        assert data.actions[0].flatten().tolist() == list(range(7))


def test_integers_that_float32_would_round_are_refused():
    def observe(env, _):
        return np.array([2**24 + env.time])

    assert collect(Counter(), lambda _: 1, 1, max_steps=1, observe=observe).states.item() == 2**24
    with pytest.raises(ValueError, match="states that float32 can hold but got larger ones at episode 0"):
        collect(Counter(), lambda _: 1, 1, observe=observe)


@pytest.mark.parametrize("action", [1.0, 1.7, float("nan"), None, "left", [1, 2], 0, 6, -1])
def test_actions_outside_a_discrete_space_are_refused_at_once(action):
    with pytest.raises(ValueError, match=r"action of Discrete\(5, start=1\) but got .* at episode 0, step 2"):
        collect(Counter(), lambda observation: action if observation[0] == 2 else 1, 10**9)


@pytest.mark.parametrize("action", [[0.0, 1.0, 2.0], float("nan"), None, "left"])
def test_actions_outside_a_continuous_space_are_refused_at_once(action):
    with pytest.raises(ValueError, match=r"action of Box.* but got .* at episode 0, step 0"):
        collect(Counter(spaces.Box(-1, 1, (2,), np.float32)), lambda _: action, 10**9)


def test_booleans_are_accepted_as_two_actions():
    data = collect(Counter(spaces.Discrete(2)), lambda observation: observation[0] > 3, 1)
    assert data.actions.tolist() == [[0, 0, 0, 0, 1, 1, 1]]
