"""Montezuma's Revenge: plays ways to the key and the first door that a search has found, and returns to them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from pyro_options.envs.ram_game import start_states
from pyro_options.errors import check

from .followed_game import FollowedGame, as_bytes
from .ram_expert import RamExpert
from .search import SearchExpert

GAME = "MontezumaRevenge"

#: the plans that ``benchmarks/montezuma_plans.py`` makes
PLANS = Path(__file__).parent / "assets" / "MontezumaRevenge.safetensors"

# bytes of the RAM, from public annotations and checked by search
_ROOM, _X, _Y, _INVENTORY = 3, 42, 43, 65

_SIZE = 4  # pixels of a cell in each direction
_TRIES = 30  # plans that are tried from a place that they pass
_DETOURS = 60  # random detours to such a place
_LONGEST, _LONGEST_HOLD = 16, 6  # actions of a detour, and repetitions of one, at most


def cell(ram: np.ndarray) -> tuple[int, ...]:
    """Room, place and inventory: what makes two states count as the same in the search."""
    return int(ram[_ROOM]), int(ram[_X]) // _SIZE, int(ram[_Y]) // _SIZE, int(ram[_INVENTORY])


def _place(ram: bytes) -> tuple[int, ...]:
    return ram[_ROOM], ram[_X], ram[_Y], ram[_INVENTORY]


def save_plans(path: str | os.PathLike, plans: Mapping[int, tuple[int, ...]]) -> None:
    """Writes the actions from each start, padded with 255."""
    longest = max(len(plan) for plan in plans.values())
    rows = [list(plans[start]) + [255] * (longest - len(plans[start])) for start in sorted(plans)]
    tensors = {
        "starts": torch.tensor(sorted(plans), dtype=torch.uint8),
        "actions": torch.tensor(rows, dtype=torch.uint8),
    }
    save_file(tensors, path)


def load_plans(path: str | os.PathLike = PLANS) -> dict[int, tuple[int, ...]]:
    """The actions from each start, by the number of its no-op frames less one."""
    found = load_file(path)
    rows = zip(found["starts"].tolist(), found["actions"].tolist())
    return {start: tuple(action for action in row if action != 255) for start, row in rows}


@dataclass(frozen=True)
class _Passage:
    """A place that a plan passes: the actions from there, and the score that they lead to."""

    actions: tuple[int, ...]
    score: float


@dataclass(frozen=True)
class _Memory:
    """What the expert knows after choosing an action."""

    state: Any  # of the emulator, before the action
    plan: tuple[int, ...]  # the action, then those to come; empty while it searches
    search: Any = None  # memory of the search, while it searches
    finished: bool = False  # whether a plan was played to its end


class MontezumaExpert(RamExpert):
    """Plays to the key and the first door.

    From each start of the game it plays the plan that the search of ``benchmarks/montezuma_plans.py`` has found. The
    emulator is deterministic without sticky actions, so a plan works as long as nobody interferes. If an action was not
    the planned one, the expert looks for a place that some plan passes, by short random detours on an emulator of its
    own, and takes the first plan that still leads to its score from there. Where it finds none, and after the plan, it
    plays as :class:`SearchExpert`, which stays alive.

    :param frame_skip: frames that each action lasts; the plans are for 4
    :param plans: actions from each start, by default those of the package
    """

    def __init__(self, frame_skip: int = 4, plans: Mapping[int, tuple[int, ...]] | None = None):
        super().__init__(frame_skip)
        check(frame_skip == 4, "frame_skip=4, for which the plans were made,", frame_skip)
        self.plans = dict(load_plans() if plans is None else plans)
        self.search = SearchExpert(GAME, frame_skip)
        self.followed: FollowedGame = self.search.followed
        self._begins = {}
        for start, state in enumerate(start_states(GAME)):
            if start in self.plans:
                self._begins[self._ram_of(state)] = state, self.plans[start]

    def _ram_of(self, state: Any) -> bytes:
        self.followed.emulator.restoreState(state)
        return self.followed.ram()

    @cached_property
    def _passages(self) -> dict[tuple[int, ...], list[_Passage]]:
        """The plans that pass each place, from there on."""
        passages: dict[tuple[int, ...], list[_Passage]] = {}
        for state, plan in self._begins.values():
            self.followed.emulator.restoreState(state)
            places, rewards = [], []
            for action in plan:
                places.append(_place(self.followed.ram()))
                rewards.append(self.followed.act(action))
            for index, place in enumerate(places):
                passages.setdefault(place, []).append(_Passage(plan[index:], sum(rewards[index:])))
        return passages

    def act(self, ram, memory):
        seen = as_bytes(ram)
        if memory is None:
            state = self.followed.start(seen)
            _, plan = self._begins.get(seen, (state, ()))
            return self._follow(state, plan or self._way_back(state, seen), seen)
        if memory.plan:
            state, action = self.followed.follow(memory.state, seen, memory.plan[0])
            if action != memory.plan[0]:
                return self._follow(state, self._way_back(state, seen), seen)
            return self._follow(state, memory.plan[1:], seen, finished=len(memory.plan) == 1)
        action, search = self.search.act(ram, memory.search)
        if search.age == 0 and not memory.finished:
            plan = self._way_back(search.state, seen)
            if plan:
                return self._follow(search.state, plan, seen)
        return action, _Memory(search.state, (), search, memory.finished)

    def _follow(self, state: Any, plan: tuple[int, ...], seen: bytes, finished: bool = False) -> tuple[int, _Memory]:
        """The first action of a plan, or one of the search if there is none."""
        if plan:
            return plan[0], _Memory(state, plan)
        action, search = self.search.plan(state, (), seen)
        return action, _Memory(state, (), search, finished)

    def _way_back(self, state: Any, seen: bytes) -> tuple[int, ...]:
        """Actions that lead to a place of a plan, then the plan; empty if none was found that works."""
        rng, tries = Random(crc32(seen)), 0
        for number in range(_DETOURS):
            for detour, here in self._detour(state, rng) if number else [((), state)]:
                passages = self._passages.get(_place(self._ram_of(here)), [])
                for passage in rng.sample(passages, min(2, len(passages))):
                    if self._works(here, passage):
                        return (*detour, *passage.actions)
                    tries += 1
                    if tries == _TRIES:
                        return ()
        return ()

    def _detour(self, state: Any, rng: Random):
        """Random actions that lose no life; yields them and the state after each that changes the place."""
        emulator, here, action, hold = self.followed.emulator, state, 0, 0
        actions: list[int] = []
        for _ in range(_LONGEST):
            if hold == 0:
                action, hold = rng.randrange(self.followed.num_actions), rng.randint(1, _LONGEST_HOLD)
            emulator.restoreState(here)
            lives, before = emulator.lives(), _place(self.followed.ram())
            self.followed.act(action)
            if emulator.lives() < lives or emulator.game_over():
                return
            actions, hold, here = [*actions, action], hold - 1, emulator.cloneState()
            if _place(self.followed.ram()) != before:
                yield tuple(actions), here

    def _works(self, state: Any, passage: _Passage) -> bool:
        """Whether a plan leads to its score from a state, without losing a life."""
        emulator = self.followed.emulator
        emulator.restoreState(state)
        lives, score = emulator.lives(), 0.0
        for action in passage.actions:
            score += self.followed.act(action)
            if emulator.lives() < lives:
                return False
        return score >= passage.score
