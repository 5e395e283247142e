"""Records demonstrations of a policy in an environment."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from tqdm import tqdm

from pyro_options.errors import InputError, check, check_count

from .action_spaces import action_bounds, action_counts, from_zero
from .flat_spaces import flat_box
from .saved_policies import Predictor, as_policy
from .trajectories import Trajectories
from .validation import exact_floats


@dataclass(frozen=True)
class Rollouts:
    """Demonstrations with their rewards."""

    trajectories: Trajectories
    rewards: Tensor  # (N, T) after each action; zero in the padding
    terminated: Tensor  # (N,) whether the episode terminated, rather than being truncated or cut

    @property
    def returns(self) -> Tensor:
        """Total reward of each episode, ``(N,)``."""
        return self.rewards.sum(-1)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seeds the global generators, which some policies use, and restores the caller's state afterwards."""
    state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(state)
            random.setstate(python_state)


def _observation(env: gym.Env, observation) -> np.ndarray:
    """The default state to record: the observation, flattened by gymnasium."""
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
    """Runs ``policy`` in ``env`` and records states, actions and rewards. The same seed gives the same episodes.

    :param env: an environment with Discrete, MultiDiscrete or Box actions, or the id of one
    :param policy: a function of the observation, an object with the ``predict`` of Stable-Baselines3, or what
        :func:`~pyro_options.data.load_policy` takes: a zip file (these are pickles: load only your own) or a hub id
    :param max_steps: cut an episode after this many actions
    :param noops: start each episode with 1 to ``noops`` unrecorded steps of the first action; 0 for none
    :param epsilon: probability of a random action instead of the policy's; the random action is recorded
    :param observe: ``observe(env, observation)`` returns the state to record, for instance RAM for a policy on pixels;
        by default the flattened observation
    :param packed: record bytes as bits, see :class:`~pyro_options.data.Trajectories`
    :param deterministic: use the policy's most probable action instead of sampling
    :param progress: show a progress bar
    """
    env, policy = gym.make(env) if isinstance(env, str) else env, as_policy(policy)
    check(isinstance(env, gym.Env), "a gymnasium environment", type(env).__name__, "Pass one that is not vectorized.")
    num_actions, discrete = action_counts(env.action_space), isinstance(env.action_space, spaces.Discrete)
    real = isinstance(env.action_space, spaces.Box) and np.issubdtype(env.action_space.dtype, np.floating)
    expected = "Discrete or MultiDiscrete actions, or a Box of real numbers,"
    check(num_actions is not None or real, expected, env.action_space)
    if observe is None:
        flat_box(
            env.observation_space, "observations", "Record something else with observe=…, or wrap the environment."
        )
    check_count(num_episodes, "num_episodes")
    if max_steps is not None:
        check_count(max_steps, "max_steps")
    check_count(noops, "noops", 0)
    check(discrete or not noops, "noops=0 without Discrete actions", noops)
    check(0 <= epsilon <= 1, "epsilon in [0, 1]", epsilon)
    check_count(seed, "seed", 0)
    check(seed < 2**32, "seed < 2**32, as numpy has it,", seed)
    recorder = _Recorder(env, policy, max_steps, noops, epsilon, observe or _observation, deterministic, seed)
    with _seeded(seed):
        bar = tqdm(range(num_episodes), disable=not progress, unit="episode", dynamic_ncols=True)
        episodes = [recorder.episode(i) for i in bar]
    fix = "Record smaller ones with observe=…"
    states = [one.states if packed else exact_floats(one.states, i, fix) for i, one in enumerate(episodes)]
    pairs = [(seen, one.actions) for seen, one in zip(states, episodes)]
    trajectories = Trajectories.from_episodes(pairs, num_actions, packed, action_bounds(env.action_space))
    rewards = torch.nn.utils.rnn.pad_sequence([torch.as_tensor(one.rewards) for one in episodes], batch_first=True)
    return Rollouts(trajectories, rewards, torch.tensor([one.terminated for one in episodes]))


def collect(env, policy, num_episodes: int, **options) -> Trajectories:
    """The trajectories of :func:`rollout`, which documents every option.

    Example::

        collect("CartPole-v1", "ppo-CartPole-v1.zip", num_episodes=100, epsilon=0.02)
    """
    return rollout(env, policy, num_episodes, **options).trajectories


def _discrete(action: Any, space: spaces.Discrete) -> int:
    """``action`` as an integer; raises ``ValueError`` if it is not in ``space``."""
    value = np.asarray(action)
    if value.size != 1 or value.dtype.kind not in "biu" or not 0 <= value.item() - int(space.start) < space.n:
        raise ValueError
    return value.item()


def _several(action: Any, space: spaces.MultiDiscrete) -> np.ndarray:
    """``action`` as integers in the shape and type of ``space``; raises ``ValueError`` if it is not in it."""
    value = np.asarray(action)
    if value.dtype.kind not in "biu" or not space.contains(value.astype(space.dtype).reshape(space.shape)):
        raise ValueError
    return value.astype(space.dtype).reshape(space.shape)


def _continuous(action: Any, space: spaces.Space) -> np.ndarray:
    """A copy of ``action`` in the shape and type of a Box; not clipped, since environments treat bounds differently."""
    value = np.array(action, dtype=space.dtype).reshape(space.shape)
    if not np.isfinite(value).all():
        raise ValueError
    return value


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
        """Resets the environment, takes the no-op steps, and returns the observation after them."""
        observation, _ = self.env.reset(seed=seed)
        space = self.env.action_space
        first = int(space.start) if isinstance(space, spaces.Discrete) else 0
        for _ in range(self.random.integers(1, self.noops + 1) if self.noops else 0):
            observation, _, terminated, truncated, _ = self.env.step(first)
            if terminated or truncated:
                observation, _ = self.env.reset()
        return observation

    def choose(self, observation, state, first: bool):
        """The next action, and the policy's recurrent state."""
        action, state = self.policy.predict(
            observation, state=state, episode_start=np.array([first]), deterministic=self.deterministic
        )
        if self.epsilon and self.random.random() < self.epsilon:
            action = self.random_actions.sample()
        return action, state

    def done(self, action: Any, episode: int, step: int) -> Any:
        """The action in the form that the environment's action space requires."""
        space = self.env.action_space
        try:
            if isinstance(space, spaces.MultiDiscrete):
                return _several(action, space)
            return _discrete(action, space) if isinstance(space, spaces.Discrete) else _continuous(action, space)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"Expected an action of {space} but got {action!r} at episode {episode}, step {step}. "
                "Let the policy return one."
            ) from error

    def episode(self, number: int) -> _Episode:
        observation, state, done = self.start(self.seed if number == 0 else None), None, False
        states: list[np.ndarray] = []
        actions: list[np.ndarray] = []
        rewards: list[float] = []
        while not done:
            # copied first: policies and environments may modify their arguments in place
            states.append(np.array(self.observe(self.env, observation)).reshape(-1))
            action, state = self.choose(observation, state, first=not actions)
            action = self.done(action, number, len(actions))
            recorded = from_zero(self.env.action_space, action)
            actions.append(recorded.flatten() if isinstance(action, np.ndarray) else recorded)
            observation, reward, terminated, truncated, _ = self.env.step(action)
            rewards.append(float(reward))
            done = terminated or truncated or len(actions) == self.max_steps
        return _Episode(np.stack(states), np.stack(actions), np.array(rewards), bool(terminated))
