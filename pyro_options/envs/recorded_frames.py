"""Screens of recorded Atari episodes, by replaying their actions in the deterministic emulator."""

import numpy as np
from numpy.typing import ArrayLike

from pyro_options.errors import check

from .atari import _emulator, make_atari


def replay_frames(
    game: str, ram: ArrayLike, actions: ArrayLike, frame_skip: int = 4, max_noops: int = 30
) -> list[np.ndarray] | None:
    """The screen before each action of a recorded episode, or ``None`` if replaying it gives other states.

    Tries every number of initial no-op frames until all states match the recorded ones.

    :param ram: ``(T, 128)`` bytes, the RAM before each action
    :param actions: ``(T,)``
    :param frame_skip: frames that each action lasted
    :param max_noops: largest number of initial no-op frames to try
    """
    states, done = np.asarray(ram), np.asarray(actions)
    check(states.ndim == 2 and states.shape[1] == 128 and states.dtype == np.uint8, "RAM (T, 128)", states.shape)
    check(done.shape == states.shape[:1], f"{len(states)} actions", done.shape)
    env = make_atari(game, frame_skip, noops=0, render_mode="rgb_array")
    try:
        for num_noops in range(max_noops + 1):
            frames = _attempt(env, states, done, num_noops)
            if frames is not None:
                return frames
        return None
    finally:
        env.close()


def _attempt(env, states: np.ndarray, actions: np.ndarray, num_noops: int) -> list[np.ndarray] | None:
    """The screens, or ``None`` if a state differs after this many initial no-op frames."""
    env.reset(seed=0)
    emulator = _emulator(env)
    for _ in range(num_noops):
        emulator.act(0)
    frames = []
    for state, action in zip(states, actions):
        if not np.array_equal(emulator.getRAM(), state):
            return None
        frames.append(env.render())
        env.step(int(action))
    return frames
