"""Observation and action spaces that can be read as vectors."""

import gymnasium as gym
from gymnasium import spaces

from pyro_options.errors import InputError


def _leaves(space: gym.Space) -> list[gym.Space]:
    """The space itself, or those that a Dict or a Tuple is made of."""
    parts = space.spaces.values() if isinstance(space, spaces.Dict) else getattr(space, "spaces", None)
    if not isinstance(space, spaces.Dict | spaces.Tuple) or parts is None:
        return [space]
    return [leaf for part in parts for leaf in _leaves(part)]


def _flattens(space: gym.Space) -> bool:
    try:
        return isinstance(spaces.flatten_space(space), spaces.Box)
    except NotImplementedError:  # spaces of other packages, such as minigrid's missions
        return False


def flat_box(space: gym.Space, name: str, fix: str) -> spaces.Box:
    """The Box that a space flattens to; raises if it has none, as texts, graphs and sequences.

    :param name: of its values, for the message
    """
    wrong = [leaf for leaf in _leaves(space) if not _flattens(leaf)]
    if wrong:
        kinds = ", ".join(sorted({type(leaf).__name__ for leaf in wrong}))
        raise InputError(f"Expected {name} that flatten to a Box but got {kinds} in {space}. {fix}")
    flat = spaces.flatten_space(space)
    assert isinstance(flat, spaces.Box)
    return flat
