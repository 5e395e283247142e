"""Demonstrations from an environment and somebody who can act in it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from tqdm import tqdm

from pyro_options.errors import check

from .policies import Predictor, as_policy
from .trajectories import Trajectories


@dataclass(frozen=True)
class Rollouts:
    """Demonstrations and how they went."""

    trajectories: Trajectories
    rewards: Tensor  # (N, T) after each action; zero beyond the end
    terminated: Tensor  # (N,) whether the environment itself ended the episode

    @property
    def returns(self) -> Tensor:
        """Total reward of each episode, ``(N,)``."""
        return self.rewards.sum(-1)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """The same global random numbers inside, for policies that draw from them; the caller's own afterwards."""
    state = np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(state)


def _observation(env: gym.Env, observation) -> np.ndarray:
    """What is recorded by default: the observation, flattened by gymnasium's own rules."""
    return np.asarray(spaces.flatten(env.observation_space, observation))


def rollout(
    env: gym.Env | str,
    policy: Predictor | Callable | str | os.PathLike,
    num_episodes: int,
    max_steps: int | None = None,
    seed: int = 0,
    noops: int = 0,
    epsilon: float = 0.0,
    observe: Callable | None = None,
    packed: bool = False,
    deterministic: bool = True,
    progress: bool = False,
) -> Rollouts:
    """Lets ``policy`` act in ``env`` and records it. The same seed gives the same episodes.

    :param env: an environment with Discrete or Box actions, or the id of one
    :param policy: a function of the observation, anything with the ``predict`` of Stable-Baselines3, or what
        :func:`~pyro_options.data.load_policy` takes: a zip file (these are pickles: load only your own) or a hub id
    :param max_steps: end an episode after so many actions
    :param noops: start each episode with 1 to ``noops`` steps of action 0 that are not recorded, 0 for none
    :param epsilon: chance of a random action instead of the policy's; it is recorded as the action that was done
    :param observe: ``observe(env, observation)`` gives the state to record, RAM for a policy that looks at pixels for
        instance; by default the flattened observation
    :param packed: record bytes as bits, see :class:`~pyro_options.data.Trajectories`
    :param deterministic: ask the policy for its best action rather than a random one
    :param progress: show a bar
    """
    env, policy = gym.make(env) if isinstance(env, str) else env, as_policy(policy)
    check(isinstance(env, gym.Env), "a gymnasium environment", type(env).__name__, "Pass one that is not vectorized.")
    num_actions = int(env.action_space.n) if isinstance(env.action_space, spaces.Discrete) else None
    discrete = num_actions is not None
    check(discrete or isinstance(env.action_space, spaces.Box), "Discrete or Box actions", env.action_space)
    check(num_episodes >= 1, "num_episodes >= 1", num_episodes)
    check(max_steps is None or max_steps >= 1, "max_steps >= 1", max_steps)
    check(noops == 0 or (noops >= 1 and discrete), "noops >= 1 with discrete actions, or 0", noops)
    check(0 <= epsilon <= 1, "epsilon in [0, 1]", epsilon)
    recorder = _Recorder(env, policy, max_steps, noops, epsilon, observe or _observation, deterministic, seed)
    with _seeded(seed):
        bar = tqdm(range(num_episodes), disable=not progress, unit="episode", dynamic_ncols=True)
        episodes = [recorder.episode(seed if i == 0 else None) for i in bar]
    states = [(one.states if packed else _floats(one.states), one.actions) for one in episodes]
    trajectories = Trajectories.from_episodes(states, num_actions, packed)
    rewards = torch.nn.utils.rnn.pad_sequence([torch.as_tensor(one.rewards) for one in episodes], batch_first=True)
    return Rollouts(trajectories, rewards, torch.tensor([one.terminated for one in episodes]))


def collect(env, policy, num_episodes: int, **options) -> Trajectories:
    """The trajectories of :func:`rollout`, which explains every option.

    Example::

        collect("CartPole-v1", "ppo-CartPole-v1.zip", num_episodes=100, epsilon=0.02)
    """
    return rollout(env, policy, num_episodes, **options).trajectories


def _floats(states: np.ndarray) -> np.ndarray:
    return states if np.issubdtype(states.dtype, np.floating) else states.astype(np.float32)


@dataclass(frozen=True)
class _Episode:
    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool


@dataclass
class _Recorder:
    env: gym.Env
    policy: Predictor
    max_steps: int | None
    noops: int
    epsilon: float
    observe: Callable
    deterministic: bool
    seed: int

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.random_actions = deepcopy(self.env.action_space)
        self.random_actions.seed(self.seed)

    def start(self, seed: int | None):
        """The first observation that counts."""
        observation, _ = self.env.reset(seed=seed)
        for _ in range(self.random.integers(1, self.noops + 1) if self.noops else 0):
            observation, _, terminated, truncated, _ = self.env.step(0)
            if terminated or truncated:
                observation, _ = self.env.reset()
        return observation

    def choose(self, observation, state, first: bool):
        """What is done, and what the policy remembers."""
        action, state = self.policy.predict(
            observation, state=state, episode_start=np.array([first]), deterministic=self.deterministic
        )
        if self.epsilon and self.random.random() < self.epsilon:
            action = self.random_actions.sample()
        space = self.env.action_space
        if isinstance(space, spaces.Discrete):
            return np.asarray(action).item(), state
        return np.asarray(action, dtype=space.dtype).reshape(space.shape), state

    def episode(self, seed: int | None) -> _Episode:
        observation, state, done = self.start(seed), None, False
        states: list[np.ndarray] = []
        actions: list[np.ndarray] = []
        rewards: list[float] = []
        while not done:
            action, state = self.choose(observation, state, first=not actions)
            states.append(np.array(self.observe(self.env, observation)).reshape(-1))
            observation, reward, terminated, truncated, _ = self.env.step(action)
            space = self.env.action_space
            actions.append(action - space.start if isinstance(space, spaces.Discrete) else action.reshape(-1))
            rewards.append(float(reward))
            done = terminated or truncated or len(actions) == self.max_steps
        return _Episode(np.stack(states), np.stack(actions), np.array(rewards), bool(terminated))
