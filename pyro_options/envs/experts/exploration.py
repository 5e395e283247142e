"""Finds rewards that are far away, with the emulator's save states."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from pyro_options.envs.ram_game import make_emulator
from pyro_options.errors import check

_LENGTH = 40  # actions of an excursion from a cell
_CHANGE = 0.15  # probability that an excursion changes its action
_CANDIDATES = 5  # cells that are drawn, of which the least visited is explored


@dataclass(frozen=True)
class Discovery:
    """A score, the actions that lead to it from the start, and the emulator steps spent until it was found."""

    score: float
    actions: tuple[int, ...]
    num_steps: int


@dataclass
class _Cell:
    """The best known way to a cell: the state, its score, and its last excursion."""

    state: Any
    score: float
    length: int
    way: "_Way | None"
    visits: int = 0

    def worse_than(self, score: float, length: int) -> bool:
        return (self.score, -self.length) < (score, -length)


@dataclass(frozen=True)
class _Way:
    """Actions of an excursion, and the way to where it began."""

    before: "_Way | None"
    actions: tuple[int, ...]

    def whole(self) -> tuple[int, ...]:
        parts: list[tuple[int, ...]] = []
        way: _Way | None = self
        while way is not None:
            parts.append(way.actions)
            way = way.before
        return tuple(action for part in reversed(parts) for action in part)


class Explorer:
    """The first phase of Go-Explore: an archive of cells, and random excursions from rarely visited ones.

    It does not lose a life: excursions that do are dropped.

    Ecoffet et al., "First return, then explore", Nature 590 (2021).

    :param game: such as ``MontezumaRevenge``
    :param cell: maps RAM to what makes two states count as the same
    :param frame_skip: frames that each action lasts
    """

    def __init__(self, game: str, cell: Callable[[np.ndarray], Hashable], frame_skip: int = 4):
        self.emulator, self.cell = make_emulator(game, frame_skip), cell
        self.actions = self.emulator.getMinimalActionSet()

    def explore(self, start: Any, goal: float, max_steps: int, seed: int = 0) -> list[Discovery]:
        """Explores until a score is reached; returns each new highest score in order.

        :param start: a state of the emulator
        :param goal: the score to stop at
        :param max_steps: emulator steps to stop after
        """
        check(max_steps >= 1, "max_steps >= 1", max_steps)
        rng, num_steps = Random(seed), 0
        found: list[Discovery] = []
        self.emulator.restoreState(start)
        lives = self.emulator.lives()
        archive = {self.cell(self.emulator.getRAM()): _Cell(start, 0.0, 0, None)}
        cells = list(archive.values())
        while num_steps < max_steps and (not found or found[-1].score < goal):
            origin = min(rng.choices(cells, k=_CANDIDATES), key=lambda one: one.visits)
            origin.visits += 1
            for way, score, length in self._excursion(origin, lives, rng):
                num_steps += 1
                if score > (found[-1].score if found else 0.0):
                    found.append(Discovery(score, way().whole(), num_steps))
                key = self.cell(self.emulator.getRAM())
                if key not in archive:
                    archive[key] = _Cell(self.emulator.cloneState(), score, length, way())
                    cells.append(archive[key])
                elif archive[key].worse_than(score, length):
                    known = archive[key]
                    known.state, known.score, known.length = self.emulator.cloneState(), score, length
                    known.way, known.visits = way(), 0
        return found

    def _excursion(self, origin: _Cell, lives: int, rng: Random):
        """Random actions from a cell; yields the way, the score and the length after each."""
        score, length, before = origin.score, origin.length, origin.way
        actions: list[int] = []
        self.emulator.restoreState(origin.state)
        action = rng.randrange(len(self.actions))
        for _ in range(_LENGTH):
            if rng.random() < _CHANGE:
                action = rng.randrange(len(self.actions))
            actions.append(action)
            score, length = score + self.emulator.act(self.actions[action]), length + 1
            if self.emulator.lives() < lives or self.emulator.game_over():
                return
            yield lambda: _Way(before, tuple(actions)), score, length

    def score(self, start: Any, actions: Sequence[int]) -> float:
        """The score of a sequence of actions, minus infinity if it loses a life."""
        self.emulator.restoreState(start)
        lives, score = self.emulator.lives(), 0.0
        for action in actions:
            score += self.emulator.act(self.actions[action])
            if self.emulator.lives() < lives or self.emulator.game_over():
                return -math.inf
        return score

    def shortened(self, start: Any, actions: Sequence[int], widths: Sequence[int] = (16, 8, 4)) -> tuple[int, ...]:
        """The same score with fewer actions: drops runs of them as long as the rest still leads to it.

        :param widths: of the runs that are tried, in turn
        """
        kept, goal = list(actions), self.score(start, actions)
        check(math.isfinite(goal), "actions that do not lose a life", "others")
        for width in widths:
            index, state, before = 0, start, 0.0  # the state after ``index`` actions, and its score
            while index + width <= len(kept):
                if before + self.score(state, kept[index + width :]) >= goal:
                    del kept[index : index + width]
                    continue
                passed = kept[index : index + width]
                before += self.score(state, passed)
                state, index = self.emulator.cloneState(), index + width
        return tuple(kept)
