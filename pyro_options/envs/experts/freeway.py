"""Freeway from RAM: plans the fastest crossing without a collision."""

import numpy as np

from .ram_expert import RamExpert

NOOP, UP, DOWN = range(3)

# bytes of the RAM, found by experiment
_CHICKEN_Y, _HIT_BY, _CARS = 14, 16, 108

_CAR_SPEED = np.array([1 / 5, 1 / 4, 1 / 3, 1 / 2, 1, -1, -1 / 2, -1 / 3, -1 / 4, -1 / 5])  # pixels a frame, by lane
_ROAD = 160  # cars that leave on one side enter on the other
_BOTTOM, _TOP = 6, 176
_LANE_LOW, _LANE_HIGH, _LANE = 12, 30, 16  # the lowest lane, and the distance between lanes
_DANGER = (39, 53)  # a car here touches a chicken in its lane
_LOOK_AHEAD = 70  # planning horizon, in actions


class FreewayExpert(RamExpert):
    """Plans to the far side of the road again at every step."""

    def act(self, ram, memory):
        return (UP if ram[_HIT_BY] != 255 else self._plan(ram)), ()

    def _plan(self, ram: list[int]) -> int:
        start, step = ram[_CHICKEN_Y], self.frame_skip
        rows = np.arange(_BOTTOM + (start - _BOTTOM) % step, _TOP + step, step)  # reachable heights
        blocked = self._blocked(np.array(ram[_CARS : _CARS + 10]), rows)  # (time, row)
        here = min(int(np.searchsorted(rows, start)), len(rows) - 1)
        first = np.full((3, len(rows)), False)  # whether a row can be reached with this first action
        for action, row in ((UP, here + 1), (NOOP, here), (DOWN, here - 1)):
            row = min(max(row, 0), len(rows) - 1)
            first[action, row] = not blocked[0, row]
        safe = [action for action in (UP, NOOP, DOWN) if first[action].any()]
        for time in range(1, _LOOK_AHEAD):
            done = [action for action in safe if first[action, -1]]
            if done:
                return done[0]
            up, down = np.zeros_like(first), np.zeros_like(first)
            up[:, 1:], down[:, :-1] = first[:, :-1], first[:, 1:]
            first = (first | up | down) & ~blocked[time]
        return safe[0] if safe else UP

    def _blocked(self, cars: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Which rows a car touches during each of the next actions, ``(time, row)``."""
        frames = self.frame_skip * np.arange(_LOOK_AHEAD + 1)
        x = (cars + _CAR_SPEED * frames[:, None]) % _ROAD  # (time + 1, lane)
        near = (x >= _DANGER[0]) & (x <= _DANGER[1])
        low = _LANE_LOW + _LANE * np.arange(10)[:, None]
        inside = (rows >= low) & (rows <= low + _LANE_HIGH - _LANE_LOW)  # (lane, row)
        return (near[:-1] | near[1:]).astype(int) @ inside.astype(int) > 0
