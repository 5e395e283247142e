"""An expert for any game: it searches ahead with the emulator's save states."""

import math
from dataclasses import dataclass
from random import Random
from typing import Any
from zlib import crc32

from pyro_options.errors import check

from .followed_game import FollowedGame, as_bytes
from .ram_expert import RamExpert

_LONGEST_HOLD = 8  # actions that a random plan repeats an action for, at most


@dataclass(frozen=True)
class _Memory:
    """What the expert knows after choosing an action."""

    state: Any  # of the emulator, before the action
    plan: tuple[int, ...]  # the action, then those to come
    age: int  # actions taken since the plan was made


class SearchExpert(RamExpert):
    r"""Plays the best of a few random plans, found by playing them on an emulator of its own.

    Every ``commit`` actions, and whenever the game does not go as planned (a random action, say), it draws
    ``num_plans`` sequences of ``horizon`` actions, the first of which continues the last plan, and plays each from the
    current state. The best one loses no life, and has the highest discounted score :math:`\sum_t \gamma^t r_t` among
    those. It needs no training and no knowledge of the game, but about ``num_plans * horizon / commit`` emulator steps
    for each action.

    It sees RAM only and finds the emulator's state by :class:`FollowedGame`, so it needs an environment of
    :func:`~pyro_options.envs.make_atari` with the same ``frame_skip``. Given the seed, the action is a function of the
    game so far.

    :param game: such as ``Alien``
    :param frame_skip: frames that each action lasts
    :param num_plans: plans that are compared
    :param max_plans: plans that are drawn at most, one by one until one of them survives, if none of the first does; by
        default no more than ``num_plans``
    :param horizon: length of a plan
    :param commit: actions after which to plan again
    :param gamma: discount of the score
    :param seed: of the random plans
    """

    def __init__(
        self,
        game: str,
        frame_skip: int = 4,
        num_plans: int = 6,
        horizon: int = 20,
        commit: int = 5,
        gamma: float = 0.97,
        seed: int = 0,
        max_plans: int | None = None,
    ):
        super().__init__(frame_skip)
        check(num_plans >= 1, "num_plans >= 1", num_plans)
        check(1 <= commit <= horizon, f"commit in [1, {horizon}], the horizon,", commit)
        check(0 < gamma <= 1, "gamma in (0, 1]", gamma)
        self.num_plans, self.horizon, self.commit, self.gamma, self.seed = num_plans, horizon, commit, gamma, seed
        self.max_plans = num_plans if max_plans is None else max_plans
        check(self.max_plans >= num_plans, f"max_plans >= {num_plans}, which is num_plans,", max_plans)
        self.followed = FollowedGame(game, frame_skip)

    def act(self, ram, memory):
        seen = as_bytes(ram)
        if memory is None:
            return self.plan(self.followed.start(seen), (), seen)
        state, action = self.followed.follow(memory.state, seen, memory.plan[0])
        if action != memory.plan[0]:
            return self.plan(state, (), seen)
        rest, age = memory.plan[1:], memory.age + 1
        if age == self.commit or not rest:
            return self.plan(state, rest, seen)
        return rest[0], _Memory(state, rest, age)

    def plan(self, state: Any, rest: tuple[int, ...], seen: bytes) -> tuple[int, _Memory]:
        """The first action of a new plan, and the memory after it.

        :param state: of the emulator
        :param rest: what is left of the last plan
        :param seen: RAM of the state, on which the random plans depend
        """
        rng, best, value = Random(crc32(seen) ^ self.seed), rest, (False, -math.inf)
        for number in range(self.max_plans):
            if number >= self.num_plans and value[0]:
                break
            plan, found = self._candidate(state, rest if number == 0 else (), rng)
            if found > value:
                best, value = plan, found
        return best[0], _Memory(state, best, 0)

    def _candidate(self, state: Any, start: tuple[int, ...], rng: Random) -> tuple[tuple[int, ...], tuple[bool, float]]:
        """A plan that begins in a given way, and what it is worth."""
        plan = self._lengthened(start, rng)
        return plan, self._value(state, plan)

    def _lengthened(self, plan: tuple[int, ...], rng: Random) -> tuple[int, ...]:
        """A plan of the whole horizon, with random actions that are held for a while at its end."""
        actions = list(plan)
        while len(actions) < self.horizon:
            actions += [rng.randrange(self.followed.num_actions)] * rng.randint(1, _LONGEST_HOLD)
        return tuple(actions[: self.horizon])

    def _value(self, state: Any, plan: tuple[int, ...]) -> tuple[bool, float]:
        """Whether a plan survives, and its discounted score."""
        emulator = self.followed.emulator
        emulator.restoreState(state)
        lives, score, discount = emulator.lives(), 0.0, 1.0
        for action in plan:
            score += discount * self.followed.act(action)
            discount *= self.gamma
            if emulator.lives() < lives or emulator.game_over():
                return False, score
        return True, score
