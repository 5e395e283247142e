"""Follows a game from its RAM on an emulator of its own."""

from typing import Any

import numpy as np

from pyro_options.envs.ram_game import make_emulator, start_states
from pyro_options.errors import InputError


class FollowedGame:
    """Finds the emulator's whole state from the RAM of each step, which is only a part of it.

    Without sticky actions the emulator is deterministic, and a game of :func:`~pyro_options.envs.make_atari` starts
    after at most 30 no-op frames. So the first RAM tells the start, and each further RAM tells which action was taken:
    the expected one, or another, for instance a random one. The state can then be searched from.

    :param game: such as ``Alien``
    :param frame_skip: frames that each action lasts
    """

    def __init__(self, game: str, frame_skip: int = 4):
        self.game, self.emulator = game, make_emulator(game, frame_skip)
        self.actions = self.emulator.getMinimalActionSet()
        self._starts: dict[bytes, Any] = {}
        for state in [*start_states(game, 30), *start_states(game, 0)]:
            self.emulator.restoreState(state)
            self._starts.setdefault(self.ram(), state)

    @property
    def num_actions(self) -> int:
        return len(self.actions)

    def ram(self) -> bytes:
        """The RAM of the emulator's current state."""
        return self.emulator.getRAM().tobytes()

    def act(self, action: int) -> float:
        """Takes an action; returns its reward."""
        return float(self.emulator.act(self.actions[action]))

    def start(self, ram: bytes) -> Any:
        """The state at the start of a game with this RAM."""
        if ram not in self._starts:
            fix = "Play an environment of make_atari with noops of at most 30."
            raise InputError(f"Expected RAM of a start of {self.game} but got that of another state. {fix}")
        return self._starts[ram]

    def follow(self, state: Any, ram: bytes, expected: int) -> tuple[Any, int]:
        """The state that has this RAM one action after ``state``, and the action.

        :param expected: the action that is tried first
        """
        for action in (expected, *(other for other in range(self.num_actions) if other != expected)):
            self.emulator.restoreState(state)
            self.act(action)
            if self.ram() == ram:
                return self.emulator.cloneState(), action
        fix = "Play one of make_atari with the frame_skip of the expert, and pass episode_start."
        raise InputError(f"Expected RAM that an action of {self.game} leads to but got another. {fix}")


def as_bytes(ram: Any) -> bytes:
    """RAM as bytes, to compare."""
    return np.asarray(ram, np.uint8).tobytes()
