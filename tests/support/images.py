"""Demonstrations whose states are small images, networks for them, and an environment that shows them."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from pyro_options.data import Trajectories

SHAPE = (6, 5, 2)


def make_images(num_episodes=12, num_steps=7, shape=SHAPE, seed=0):
    """Random bytes, lengths, and actions that depend on the first pixel: ``(N, T, ...)``, ``(N, T)`` and ``(N,)``."""
    rng = np.random.default_rng(seed)
    frames = rng.integers(0, 256, (num_episodes, num_steps, *shape), dtype=np.uint8)
    actions = (frames.reshape(num_episodes, num_steps, -1)[..., 0] // 86).astype(np.int64)
    return frames, actions, rng.integers(3, num_steps + 1, num_episodes)


def image_episodes(**sizes):
    """The same as demonstrations."""
    frames, actions, lengths = make_images(**sizes)
    return Trajectories(frames, actions, lengths, num_actions=3)


def tiny_network(state_shape):
    """A network of the user's own: what a factory looks like."""
    size = int(np.prod(state_shape))
    return nn.Sequential(nn.Flatten(), nn.Linear(size, 4), nn.Tanh())


class Doubled(nn.Module):
    """A network without parameters."""

    def forward(self, states):
        return 2 * states.flatten(1)


class PixelEnv(gym.Env):
    """An image that changes at random; the reward is the action."""

    def __init__(self, shape=SHAPE, num_actions=3):
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Discrete(num_actions)

    def _image(self):
        return self.np_random.integers(0, 256, self.observation_space.shape, dtype=np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._image(), {}

    def step(self, action):
        self.time += 1
        return self._image(), float(action), False, self.time >= 20, {}


def same_options(first, second, data):
    """Whether two sets of skills segment data alike and act alike."""
    pixels = data.stored.numpy().reshape(-1, data.state_dim)
    acts = [skills.action_probabilities(pixels, 0) for skills in (first, second)]
    return torch.equal(first.segment(data).options, second.segment(data).options) and np.array_equal(*acts)
