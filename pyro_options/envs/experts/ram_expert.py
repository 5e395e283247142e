"""Base class of the experts."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

from pyro_options.errors import check


def signed(byte: int) -> int:
    """A byte as a signed (two's complement) integer, -128 to 127."""
    return byte - 256 if byte > 127 else byte


def plans(actions: Sequence[int], num_frames: int, frame_skip: int) -> Iterable[tuple[int, ...]]:
    """All action sequences that cover ``num_frames``, of at least one action."""
    return product(actions, repeat=max(1, math.ceil(num_frames / frame_skip)))


class RamExpert(ABC):
    """A policy on 128 bytes of RAM with the ``predict`` of Stable-Baselines3; ``state`` is its memory.

    :param frame_skip: frames that each action lasts
    """

    def __init__(self, frame_skip: int = 4):
        check(frame_skip >= 1, "frame_skip >= 1", frame_skip)
        self.frame_skip = frame_skip

    @abstractmethod
    def act(self, ram: list[int], memory: Any) -> tuple[int, Any]:
        """The action, and the next memory; ``memory`` is ``None`` at the start of an episode."""

    def act_all(self, rams: np.ndarray, memories: Sequence[Any]) -> list[tuple[int, Any]]:
        """:meth:`act` for RAM ``(n, 128)`` from n environments."""
        return [self.act(ram, memory) for ram, memory in zip(rams.tolist(), memories)]

    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        """Actions for RAM of shape ``(128,)``, or ``(n, 128)`` from n environments."""
        observation = np.asarray(observation)
        check(observation.shape[-1:] == (128,), "RAM of 128 bytes", observation.shape, "Use make_atari.")
        rows = np.atleast_2d(observation)
        memories = (None,) * len(rows) if state is None else state
        if episode_start is not None:
            memories = tuple(None if first else old for first, old in zip(episode_start, memories))
        chosen = self.act_all(rows, memories)
        actions = np.array([action for action, _ in chosen])
        return actions if observation.ndim == 2 else actions[0], tuple(memory for _, memory in chosen)
