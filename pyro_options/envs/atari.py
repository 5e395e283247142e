"""Atari environments with RAM or pixel observations, and demonstrations of the experts."""

import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from filelock import FileLock

from pyro_options.data.collection import Rollouts, rollout
from pyro_options.data.npz import from_npz
from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check, choice

from .experts import EXPERTS


def _emulator(env: gym.Env) -> Any:
    check(hasattr(env.unwrapped, "ale"), "an Atari environment", env, "Use make_atari.")
    return env.unwrapped.ale  # type: ignore[attr-defined]


class NoopStart(gym.Wrapper):
    """Starts each episode after 1 to ``noops`` no-op frames, so that episodes differ.

    These are single frames of the emulator, without frame skip. Every game starts from the state of the first one: in
    some games, such as Freeway, what ale-py's ``reset_game`` leads to depends on the game before.
    """

    def __init__(self, env: gym.Env, noops: int = 30):
        super().__init__(env)
        check(noops >= 1, "noops >= 1", noops)
        self.noops = noops
        self._fresh: Any = None  # the emulator's state after its first reset

    def reset(self, *, seed=None, options=None):
        _, info = self.env.reset(seed=seed, options=options)
        emulator = _emulator(self.env)
        if self._fresh is None:
            self._fresh = emulator.cloneState()
        emulator.restoreState(self._fresh)
        for _ in range(self.env.unwrapped.np_random.integers(1, self.noops + 1)):
            emulator.act(0)
            if emulator.game_over():
                self.env.reset()
        return emulator.getRAM(), info


def ram(env: gym.Env, observation: Any = None) -> np.ndarray:
    """The 128 bytes of RAM; pass it as ``collect(observe=ram)`` to record RAM for an agent that observes pixels."""
    return _emulator(env).getRAM()


def make_atari(
    game: str, frame_skip: int = 4, noops: int = 30, observation: str = "ram", max_steps: int | None = None, **options
) -> gym.Env:
    """Makes ``{game}NoFrameskip-v4``, which has no sticky actions.

    :param game: such as ``Breakout``
    :param frame_skip: frames that each action lasts
    :param noops: an episode starts after 1 to ``noops`` no-op frames; 0 for none
    :param observation: ``ram`` for 128 bytes, or ``pixels`` for four stacked grey frames ``(4, 84, 84)`` as in the
        Stable-Baselines3 zoo (needs OpenCV)
    :param max_steps: truncate an episode after this many actions
    :param options: passed to :func:`gymnasium.make`, such as ``render_mode="rgb_array"``
    """
    import ale_py

    choice(observation, "observation", ("ram", "pixels"))
    check(frame_skip >= 1, "frame_skip >= 1", frame_skip)
    check(noops >= 0, "noops >= 0", noops)
    gym.register_envs(ale_py)
    name = f"{game}NoFrameskip-v4"
    check(name in gym.registry, "a game that ale-py has", repr(game), "Write it as in Breakout or SpaceInvaders.")
    if observation == "pixels":
        env = gym.make(name, frameskip=1, **options)
        env = gym.wrappers.AtariPreprocessing(env, noop_max=noops, frame_skip=frame_skip)
        env = gym.wrappers.FrameStackObservation(env, 4)
    else:
        env = gym.make(name, obs_type="ram", frameskip=frame_skip, **options)
        env = NoopStart(env, noops) if noops else env
    return env if max_steps is None else gym.wrappers.TimeLimit(env, max_steps)


def expert_rollouts(
    game: str,
    num_episodes: int,
    max_steps: int | None = 300,
    seed: int = 0,
    epsilon: float = 0.01,
    frame_skip: int = 4,
    noops: int = 30,
    progress: bool = False,
) -> Rollouts:
    """Records episodes of the expert of ``game``, with RAM as packed states.

    Experts are scripts (Breakout, Freeway, Pong), plans found by exploration (MontezumaRevenge), or search among the
    plans of a network (the others), which takes up to ten milliseconds per action. The emulator is deterministic and a
    game has 30 starts, so episodes differ by their start and by random actions, after which every expert goes on from
    where it is.

    :param game: one of :data:`~pyro_options.envs.EXPERTS`
    :param max_steps: cut an episode after this many actions; ``None`` plays to the end
    :param epsilon: probability of a random action at each step
    :param frame_skip: frames that each action lasts
    :param noops: an episode starts after 1 to ``noops`` no-op frames; 0 for none
    """
    choice(game, "game", EXPERTS)
    env = make_atari(game, frame_skip, noops)
    expert = EXPERTS[game](frame_skip)
    try:
        return rollout(env, expert, num_episodes, max_steps, seed, epsilon=epsilon, packed=True, progress=progress)
    finally:
        env.close()


def atari_demonstrations(
    game: str, num_episodes: int = 100, *, cache: str | os.PathLike | None = None, **options
) -> Trajectories:
    """The trajectories of :func:`expert_rollouts`, which documents every option.

    :param cache: folder to store them in, in a file named after all options; an existing file is loaded instead. Of
        several processes that want the same file one records, and the others wait
    """
    if cache is None:
        return expert_rollouts(game, num_episodes, **options).trajectories
    told = [f"{name}{value}" for name, value in sorted(options.items()) if name != "progress"]
    path = Path(cache) / ("_".join([game, str(num_episodes), *told]) + ".npz")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if not path.exists():
                expert_rollouts(game, num_episodes, **options).trajectories.save(path)
    return Trajectories.load(path)


def load_atari(path: str | os.PathLike) -> Trajectories:
    """Reads Atari RAM from an npz file with arrays ``ram`` (N, T, 128), ``action`` (N, T) and ``length`` (N,), or from
    a file or a folder that :meth:`Trajectories.save` wrote."""
    if Path(path).is_dir():
        return Trajectories.load(path)
    try:
        return from_npz(path, states="ram", actions="action", lengths="length", packed=True)
    except ValueError as error:
        try:
            return Trajectories.load(path)
        except ValueError:
            raise error from None
