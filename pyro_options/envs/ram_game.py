"""An Atari game on the bare emulator, for agents and skills that read RAM."""

from typing import Any

import numpy as np
from gymnasium.utils import seeding

from pyro_options.errors import check

#: frames after which ale-py's ``NoFrameskip-v4`` games are truncated
MAX_FRAMES = 108_000


def rom_path(game: str) -> Any:
    """The file of a game that is named as in Gymnasium, such as ``SpaceInvaders``."""
    from ale_py import roms

    file = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in game).lstrip("_")
    known = game != file and file in roms.get_all_rom_ids()
    check(known, "a game that ale-py has", repr(game), "Write it as in Breakout or SpaceInvaders.")
    return roms.get_rom_path(file)


def make_emulator(game: str, frame_skip: int = 4) -> Any:
    """ale-py's ``ALEInterface`` with a game loaded, without sticky actions; ``act`` lasts ``frame_skip`` frames."""
    from ale_py import ALEInterface, LoggerMode

    ALEInterface.setLoggerMode(LoggerMode.Error)
    emulator = ALEInterface()
    emulator.setFloat("repeat_action_probability", 0.0)
    emulator.setInt("max_num_frames_per_episode", MAX_FRAMES)
    emulator.setInt("frame_skip", frame_skip)
    emulator.setInt("random_seed", 0)  # not used without sticky actions
    emulator.loadROM(rom_path(game))
    return emulator


def start_states(game: str, noops: int = 30) -> list[Any]:
    """The emulator's states after 1 to ``noops`` no-op frames, or, if ``noops`` is 0, the one after a reset.

    Without sticky actions a game has no other starts: the emulator is deterministic.
    """
    check(noops >= 0, "noops >= 0", noops)
    emulator = make_emulator(game, frame_skip=1)
    emulator.reset_game()
    if not noops:
        return [emulator.cloneState()]
    states = []
    for _ in range(noops):
        emulator.act(0)
        states.append(emulator.cloneState())
    return states


class RamGame:
    """A game on the bare emulator, with what the study's wrappers do, at a fraction of their cost.

    It does the same as :func:`~pyro_options.envs.make_atari` in Stable-Baselines3's ``Monitor``, ``EpisodicLifeEnv``,
    ``FireResetEnv`` and ``ClipRewardEnv``, with the same random numbers, but a start is restored from a saved state
    instead of being played, and :meth:`reset` with a seed always starts a new game.

    :param game: such as ``Breakout``
    :param starts: of :func:`start_states`, which several games may share; by default those of 1 to 30 no-op frames
    :param frame_skip: frames that each action lasts
    :param episodic_life: end an episode, though not the game, when a life is lost
    :param fire: start each episode with the fire button (and up), as some games wait for it
    :param clip_rewards: return the sign of a reward; ``episode`` has the sum of the true ones
    """

    def __init__(
        self,
        game: str,
        starts: list[Any] | None = None,
        frame_skip: int = 4,
        episodic_life: bool = True,
        fire: bool = True,
        clip_rewards: bool = True,
    ):
        from ale_py import Action

        check(frame_skip >= 1, "frame_skip >= 1", frame_skip)
        self.emulator, self.frame_skip = make_emulator(game, frame_skip), frame_skip
        self.starts = start_states(game) if starts is None else starts
        self.actions = self.emulator.getMinimalActionSet()
        self.fire = fire and Action.FIRE in self.actions
        self.episodic_life, self.clip_rewards = episodic_life, clip_rewards
        self.np_random: np.random.Generator = np.random.default_rng()
        self._lives, self._over = 0, True
        self._score, self._length = 0.0, 0
        #: score and length of the game that ended with the last action, ``None`` if it goes on
        self.episode: dict[str, float] | None = None

    @property
    def num_actions(self) -> int:
        return len(self.actions)

    def ram(self) -> np.ndarray:
        """The 128 bytes of RAM."""
        return self.emulator.getRAM()

    def seed(self, seed: int) -> None:
        """Seeds the generator as ale-py's environments do; the next :meth:`reset` starts a new game."""
        self.np_random, _ = seeding.np_random(int(np.random.SeedSequence(seed).generate_state(2)[0]))
        self._over = True

    def _start(self) -> None:
        """Starts a new game."""
        count = len(self.starts)
        index = int(self.np_random.integers(1, count + 1)) - 1 if count > 1 else 0
        self.emulator.restoreState(self.starts[index])
        self._score, self._length, self._over = 0.0, 0, False

    def _next_life(self) -> None:
        if not self._over:
            self._play(0)
        if self._over:
            self._start()
        self._lives = self.emulator.lives()

    def reset(self) -> None:
        """Starts the next episode: a new game if the last one is over or was seeded, else the next life."""
        self._next_life()
        if self.fire:
            for action in (1, 2):
                _, terminated, truncated = self.act(action)
                if terminated or truncated:
                    self._next_life()

    def _play(self, action: int) -> float:
        reward = float(self.emulator.act(self.actions[action]))
        self._score, self._length = self._score + reward, self._length + 1
        self._over = self.emulator.game_over()
        return reward

    def act(self, action: int) -> tuple[float, bool, bool]:
        """Takes an action; returns the reward, and whether the episode is terminated and whether it is truncated."""
        emulator = self.emulator
        reward = self._play(action)
        terminated, truncated = False, False
        self.episode = None
        if self._over:
            terminated, truncated = emulator.game_over(with_truncation=False), emulator.game_truncated()
            self.episode = {"r": round(self._score, 6), "l": self._length}
        if self.episodic_life:
            lives = emulator.lives()
            terminated = terminated or 0 < lives < self._lives
            self._lives = lives
        return float(np.sign(reward)) if self.clip_rewards else reward, terminated, truncated
