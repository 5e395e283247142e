"""Data with nothing to find: random actions, and one smooth policy."""

from collections.abc import Callable

import numpy as np

from .task import Episode, Task, make_task

STATE_DIM, NUM_ACTIONS = 4, 4
NOISE, STEP = 0.1, 0.1


def smooth_mean(states: np.ndarray) -> np.ndarray:
    """Mean action of the smooth policy: a curved function of position and velocity ``(..., 4)``."""
    x, y, vx, vy = np.moveaxis(states, -1, 0)
    first = 1.5 * np.sin(2 * y) - np.tanh(2 * x) - vx + 0.5 * vy * np.cos(2 * x)
    second = -1.5 * np.sin(2 * x) - np.tanh(2 * y) - vy + 0.5 * vx * np.cos(2 * y)
    return np.stack([first, second], -1)


def smooth_probabilities(states: np.ndarray) -> np.ndarray:
    """Probabilities of up, down, left and right ``(..., 4)`` that follow the same curved function."""
    mean = smooth_mean(states)
    logits = 2 * np.stack([mean[..., 1], -mean[..., 1], mean[..., 0], -mean[..., 0]], -1)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def _point_mass(rng: np.random.Generator, act: Callable, push: Callable) -> Episode:
    """60 to 99 steps of a point mass that ``act(state)`` controls by the acceleration ``push(action)``."""
    state = np.concatenate([rng.normal(0, 1, 2), rng.normal(0, 0.5, 2)])
    states, actions = [], []
    for _ in range(rng.integers(60, 100)):
        action = act(state)
        states.append(state)
        actions.append(action)
        velocity = state[2:] + STEP * push(action) + rng.normal(0, 0.05, 2)
        state = np.concatenate([state[:2] + STEP * velocity, velocity])
    return Episode(states, actions, [0] * len(actions))


def smooth_policy(seed: int, episodes: int = 200) -> Task:
    """One smooth nonlinear policy with Gaussian noise, in its own closed loop."""
    rng = np.random.default_rng(seed)

    def act(state: np.ndarray) -> np.ndarray:
        return smooth_mean(state) + rng.normal(0, NOISE, 2)

    return make_task("smooth_policy", [_point_mass(rng, act, lambda action: action) for _ in range(episodes)], 1)


def smooth_discrete(seed: int, episodes: int = 200) -> Task:
    """One smooth nonlinear policy over four directions, in its own closed loop."""
    rng = np.random.default_rng(seed)
    directions = np.array([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0], [-1.0, 0.0]])

    def act(state: np.ndarray) -> int:
        return int(rng.choice(NUM_ACTIONS, p=smooth_probabilities(state)))

    made = [_point_mass(rng, act, directions.__getitem__) for _ in range(episodes)]
    return make_task("smooth_discrete", made, 1, NUM_ACTIONS)


def _walk(rng: np.random.Generator, act: Callable) -> Episode:
    """A random walk of 60 to 99 steps with actions that do not depend on it."""
    num_steps = int(rng.integers(60, 100))
    states = rng.normal(0, 1, (num_steps, STATE_DIM)).cumsum(0)
    return Episode(states, act(num_steps), [0] * num_steps)


def random_actions(seed: int, episodes: int = 200) -> Task:
    """Uniform discrete actions."""
    rng = np.random.default_rng(seed)
    made = [_walk(rng, lambda num: rng.integers(NUM_ACTIONS, size=num)) for _ in range(episodes)]
    return make_task("random_actions", made, 1, NUM_ACTIONS)


def random_continuous(seed: int, episodes: int = 200) -> Task:
    """Uniform continuous actions in [-1, 1]."""
    rng = np.random.default_rng(seed)
    return make_task(
        "random_continuous", [_walk(rng, lambda num: rng.uniform(-1, 1, (num, 2))) for _ in range(episodes)], 1
    )
