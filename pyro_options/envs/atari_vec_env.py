"""Many Atari games at once, with skills that act for all of them in one product."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv

from pyro_options.errors import check
from pyro_options.skills.acting import ActingSkills

from .plain_learners import warn_of_plain_learner
from .ram_game import RamGame, start_states


class _Decisions:
    """The running decisions of a step: what each environment has done since the agent chose.

    :param options: option of each environment, -1 for an action of the game
    """

    def __init__(self, options: np.ndarray):
        count = len(options)
        self.options = options
        self.rewards, self.durations = np.zeros(count), np.zeros(count, int)
        self.terminated, self.truncated = np.zeros(count, bool), np.zeros(count, bool)
        self.episodes: list[dict[str, float] | None] = [None] * count


class AtariVecEnv(VecEnv):
    r"""Atari games for a Stable-Baselines3 learner on the bits of the RAM, with skills as further actions.

    It gives the same steps as ``DummyVecEnv`` with a :class:`~pyro_options.envs.SkillWrapper` around each game and
    Stable-Baselines3's Atari wrappers (``Monitor``, ``EpisodicLifeEnv``, ``FireResetEnv``, ``ClipRewardEnv``), for the
    same seed. It is faster in three ways: it acts on the bare emulator, it restores the start of a game from a saved
    state, and at each inner step the skills of all environments are evaluated together. Results can differ where an
    action or a termination hangs on the last digit of a product.

    - Action Space: ``Discrete(n + K)``, the n actions of the game, then the K skills; with ``imitate`` one more.
    - Observation Space: ``Box(0, 1, (1024,), float32)``, the bits of the RAM.
    - Rewards: :math:`\sum_{j<\tau} \gamma^j r_j` of a decision that lasts τ actions of the game.
    - Episode End: a life or the game is lost; the game is truncated after 108,000 frames.

    ``infos`` have ``duration`` τ, ``discount`` :math:`\gamma^\tau`, ``option``, ``num_frames``, ``lives`` and
    ``TimeLimit.truncated``, at the end of an episode ``terminal_observation``, and at the end of a game ``episode``
    with its score ``r`` and its length ``l``.

    :param game: such as ``Breakout``
    :param num_envs: number of environments
    :param skills: skills on the RAM with discrete actions; ``None`` for none
    :param gamma: discount within a skill; use that of the learner
    :param max_duration: end a skill after this many actions; by default ``skills.max_duration``
    :param deterministic: whether a skill takes its most probable action instead of sampling
    :param imitate: add imitation as the last action, see :class:`~pyro_options.envs.SkillWrapper`
    :param frame_skip: frames that each action lasts
    :param noops: a game starts after 1 to ``noops`` no-op frames; 0 for none
    :param options: passed to :class:`~pyro_options.envs.ram_game.RamGame`, such as ``clip_rewards=False``
    """

    def __init__(
        self,
        game: str,
        num_envs: int = 8,
        skills: ActingSkills | None = None,
        gamma: float = 0.99,
        max_duration: int | None = None,
        deterministic: bool = True,
        imitate: bool = False,
        frame_skip: int = 4,
        noops: int = 30,
        **options: Any,
    ):
        check(num_envs >= 1, "num_envs >= 1", num_envs)
        check(0 < gamma <= 1, "gamma in (0, 1]", gamma)
        check(max_duration is None or max_duration >= 1, "max_duration >= 1", max_duration)
        starts = start_states(game, noops)
        self.games = [RamGame(game, starts, frame_skip, **options) for _ in range(num_envs)]
        self.num_primitives = self.games[0].num_actions
        self.skills, self.gamma, self.deterministic, self.frame_skip = skills, gamma, deterministic, frame_skip
        self._check_skills(imitate)
        self.max_duration = skills.max_duration if max_duration is None and skills is not None else max_duration
        self._imitation: Any = skills.imitation() if imitate else None  # type: ignore[union-attr]
        self.num_options = imitate + (0 if skills is None else skills.num_options)
        self._beliefs = np.zeros((num_envs, 0 if skills is None else skills.num_options))
        self._first = np.ones(num_envs, bool)  # whether no action has been taken since the episode began
        self._learner_unknown = gamma < 1
        self._rams = np.zeros((num_envs, 128), np.uint8)
        self._begin = time.time()
        self.render_mode = None
        space = spaces.Discrete(self.num_primitives + self.num_options)
        super().__init__(num_envs, spaces.Box(0, 1, (1024,), np.float32), space)

    def _check_skills(self, imitate: bool) -> None:
        skills = self.skills
        if skills is None:
            check(not imitate, "skills to imitate with", "none")
            return
        fix = "Use SkillWrapper for others."
        check(isinstance(skills, ActingSkills), "Skills", type(skills).__name__, fix)
        check(
            skills.num_actions == self.num_primitives, f"skills over {self.num_primitives} actions", skills.num_actions
        )
        check(skills.state_dim == 1024, "skills on the 1024 bits of the RAM", skills.state_dim)

    def _observations(self, rams: np.ndarray) -> np.ndarray:
        return np.unpackbits(rams, axis=-1).astype(np.float32)

    def _begin_episode(self, index: int) -> None:
        self.games[index].reset()
        self._rams[index] = self.games[index].ram()
        self._first[index] = True

    def reset(self) -> np.ndarray:
        """Starts a new game in every environment that is seeded or new, else the next life."""
        for index, (game, seed) in enumerate(zip(self.games, self._seeds)):
            if seed is not None:
                game.seed(seed)
            self._begin_episode(index)
        self._reset_seeds()
        self._reset_options()
        return self._observations(self._rams)

    def step_async(self, actions: np.ndarray) -> None:
        highest = self.num_primitives + self.num_options - 1
        actions = np.asarray(actions)
        valid = actions.shape == (self.num_envs,) and actions.min() >= 0 and actions.max() <= highest
        check(valid, f"{self.num_envs} actions in [0, {highest}]", actions)
        self._actions = actions.astype(int)

    def step_wait(self):
        """Runs the decision of every environment to its end."""
        decisions = _Decisions(np.maximum(self._actions - self.num_primitives, -1))
        running = list(range(self.num_envs))
        while running:
            self._act(decisions, running)
            running = self._going_on(decisions, running)
        return self._results(decisions)

    def _chosen(self, decisions: _Decisions, running: list[int]) -> np.ndarray:
        """The next action of the game in each running environment."""
        chosen = self._actions[running]
        options = decisions.options[running]
        acting = np.flatnonzero(options >= 0)
        if self._imitation is not None:
            copying = acting[options[acting] == self.num_options - 1]
            acting = acting[options[acting] < self.num_options - 1]
            if len(copying):
                chosen[copying] = self._imitate([running[i] for i in copying])
        if len(acting):
            where = [running[i] for i in acting]
            chosen[acting] = self._predict(self._rams[where], options[acting], where)
        return chosen

    def _predict(self, rams: np.ndarray, options: np.ndarray, where: Sequence[int]) -> np.ndarray:
        assert self.skills is not None
        if self.deterministic:
            return self.skills.predict(rams, options)
        rngs = [self.games[index].np_random for index in where]
        each = zip(self.skills.outputs(rams), options, rngs)
        return np.array([self.skills.rule.act(outputs[k], int(k), rng) for outputs, k, rng in each])

    def _imitate(self, where: Sequence[int]) -> np.ndarray:
        """Actions of imitation, for each environment with its own random numbers if they are sampled."""
        beliefs, rams, first = self._beliefs[where], self._rams[where], self._first[where]
        if self.deterministic:
            return self._imitation.predict(rams, beliefs, first)[0]
        actions = []
        for index, ram, belief, new in zip(where, rams, beliefs, first):
            rng, before = self.games[index].np_random, None if new else belief
            actions.append(self._imitation.predict(ram, before, deterministic=False, rng=rng)[0])
        return np.array(actions)

    def _act(self, decisions: _Decisions, running: list[int]) -> None:
        """One action of the game in each running environment."""
        chosen = self._chosen(decisions, running)
        if self._imitation is not None:
            rams, beliefs, first = self._rams[running], self._beliefs[running], self._first[running]
            self._beliefs[running] = self._imitation.update(rams, chosen, beliefs, first)
        for index, action in zip(running, chosen.tolist()):
            game = self.games[index]
            reward, terminated, truncated = game.act(action)
            self._rams[index] = game.ram()
            decisions.rewards[index] += self.gamma ** int(decisions.durations[index]) * reward
            decisions.terminated[index], decisions.truncated[index] = terminated, truncated
            decisions.episodes[index] = game.episode
        decisions.durations[running] += 1
        self._first[running] = False

    def _going_on(self, decisions: _Decisions, running: Iterable[int]) -> list[int]:
        """The environments whose skill continues."""
        ended = decisions.terminated | decisions.truncated | (decisions.options < 0)
        if self.max_duration is not None:
            ended |= decisions.durations >= self.max_duration
        rest = [index for index in running if not ended[index]]
        if not rest:
            return []
        stops = self._stop_probabilities(decisions.options[rest], rest)
        return [index for index, stop in zip(rest, stops) if self.games[index].np_random.random() >= stop]

    def _stop_probabilities(self, options: np.ndarray, where: list[int]) -> np.ndarray:
        assert self.skills is not None
        rams = self._rams[where]
        stops = np.zeros(len(where))
        single = np.full(len(where), True) if self._imitation is None else options < self.num_options - 1
        if single.any():
            stops[single] = self.skills.termination_probability(rams[single], options[single])
        if not single.all():
            beliefs = self._beliefs[where][~single]
            stops[~single] = self._imitation.switch_probability(rams[~single], beliefs)
        return stops

    def _results(self, decisions: _Decisions):
        if self._learner_unknown and decisions.durations.max() > 1:
            self._learner_unknown = False
            warn_of_plain_learner()
        dones = decisions.terminated | decisions.truncated
        observations = self._observations(self._rams)
        infos = [self._info(decisions, index) for index in range(self.num_envs)]
        for index in np.flatnonzero(dones).tolist():
            infos[index]["terminal_observation"] = observations[index].copy()
            self._begin_episode(index)
            observations[index] = self._observations(self._rams[index])
        return observations, decisions.rewards.astype(np.float32), dones, infos

    def _info(self, decisions: _Decisions, index: int) -> dict[str, Any]:
        duration = int(decisions.durations[index])
        info: dict[str, Any] = {
            "lives": self.games[index].emulator.lives(),
            "option": int(decisions.options[index]),
            "duration": duration,
            "discount": self.gamma**duration,
            "num_frames": duration * self.frame_skip,
            "TimeLimit.truncated": bool(decisions.truncated[index] and not decisions.terminated[index]),
        }
        episode = decisions.episodes[index]
        if episode is not None:
            info["episode"] = episode | {"t": round(time.time() - self._begin, 6)}
        return info

    def close(self) -> None:
        """Nothing has to be closed."""

    def get_attr(self, attr_name: str, indices=None) -> list[Any]:
        """An attribute of this object, or else of each game."""
        where = [self.games[index] for index in self._get_indices(indices)]
        return [getattr(self if hasattr(self, attr_name) else game, attr_name) for game in where]

    def set_attr(self, attr_name: str, value: Any, indices=None) -> None:
        """Sets an attribute of each game."""
        for index in self._get_indices(indices):
            setattr(self.games[index], attr_name, value)

    def env_method(self, method_name: str, *method_args, indices=None, **method_kwargs) -> list[Any]:
        """Calls a method of each game."""
        where = [self.games[index] for index in self._get_indices(indices)]
        return [getattr(game, method_name)(*method_args, **method_kwargs) for game in where]

    def env_is_wrapped(self, wrapper_class, indices=None) -> list[bool]:
        """Whether games report episodes as a wrapper does: true of ``Monitor``."""
        return [issubclass(wrapper_class, Monitor)] * len(list(self._get_indices(indices)))
