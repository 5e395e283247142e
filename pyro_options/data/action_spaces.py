"""What an action space says about the actions of demonstrations."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


def action_counts(space: gym.Space) -> int | tuple[int, ...] | None:
    """Number of actions of a Discrete space, or of each dimension of a MultiDiscrete one; ``None`` of others."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    return tuple(space.nvec.flatten().tolist()) if isinstance(space, spaces.MultiDiscrete) else None


def action_bounds(space: gym.Space) -> np.ndarray | None:
    """Lower and upper bounds of a Box (flattened), ``(2, A)``; ``None`` if there are none."""
    if not isinstance(space, spaces.Box):
        return None
    bounds = np.stack([space.low.flatten(), space.high.flatten()])
    return bounds if np.isfinite(bounds).any() and (bounds[0] < bounds[1]).all() else None


def from_zero(space: gym.Space, actions: Any) -> Any:
    """Actions as demonstrations hold them: integers count from zero; unchanged in other spaces."""
    return actions - space.start if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else actions


def to_space(space: spaces.MultiDiscrete, actions: np.ndarray) -> np.ndarray:
    """The inverse of :func:`from_zero` for a MultiDiscrete space: ``(..., A)`` integers in its shape and type."""
    shape = np.shape(actions)[:-1] + space.shape
    return (np.reshape(actions, shape) + space.start).astype(space.dtype)
