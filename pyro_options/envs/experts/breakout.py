"""Breakout from RAM: predicts where the ball lands and plans the paddle's path there."""

import math

from .ram_expert import RamExpert, plans, signed

NOOP, FIRE, RIGHT, LEFT = range(4)

# bytes of the RAM, found by experiment
_KNOB, _PADDLE_X = 70, 72
_BALL_X, _BALL_Y, _BALL_DOWN, _BALL_LEFT = 99, 101, 103, 105  # each followed by its fraction

_LEFT_WALL, _RIGHT_WALL, _PADDLE_Y = 57, 200, 177
_KNOB_ZERO, _KNOB_SPEED = 234, {NOOP: 0, RIGHT: -6, LEFT: 6}  # per frame; the knob decreases as the paddle moves right
_STEP = 12  # half the paddle's movement per action: the tolerance while the ball is far
_HORIZON = 12  # frames before landing from which all action sequences are searched
_AIMS = (7, 6, 8, 5, 9)  # where on the paddle to catch the ball, in turn: a single spot can lead to an endless cycle


def _fixed(ram: list[int], address: int) -> float:
    return signed(ram[address]) + ram[address + 1] / 256


def _landing(ram: list[int]) -> tuple[float, int]:
    """The x at which a falling ball reaches the paddle's height, and the number of frames until then."""
    x, y = ram[_BALL_X] + ram[_BALL_X + 1] / 256, ram[_BALL_Y] + ram[_BALL_Y + 1] / 256
    right, down = -_fixed(ram, _BALL_LEFT), _fixed(ram, _BALL_DOWN)
    num_frames = max(0, math.ceil((_PADDLE_Y - y) / down))
    for _ in range(num_frames):
        x += right
        if (x < _LEFT_WALL and right < 0) or (x >= _RIGHT_WALL and right > 0):
            right = -right
    return x, num_frames


class BreakoutExpert(RamExpert):
    """Catches the ball where it lands.

    The paddle covers half of the distance to the knob's position in each frame, and an action turns the knob by 24
    pixels while the paddle is 16 wide. The last frames are therefore planned, to catch the ball while moving.
    """

    def act(self, ram, memory):
        was_falling, num_falls = (False, 0) if memory is None else memory
        if ram[_BALL_Y] == 0:
            return FIRE, (False, num_falls)
        falling = _fixed(ram, _BALL_DOWN) > 0 and ram[_BALL_Y] <= _PADDLE_Y
        num_falls += falling and not was_falling
        aim = _AIMS[num_falls % len(_AIMS)]
        if not falling:
            return self._approach(ram, ram[_BALL_X] - aim), (falling, num_falls)
        x, num_frames = _landing(ram)
        if num_frames > _HORIZON:
            return self._approach(ram, x - aim), (falling, num_falls)

        def cost(plan):
            return abs(self._paddle(ram, plan, num_frames) + aim - x), sum(action != NOOP for action in plan)

        return min(plans((NOOP, RIGHT, LEFT), num_frames, self.frame_skip), key=cost)[0], (falling, num_falls)

    def _approach(self, ram: list[int], goal: float) -> int:
        away = goal - (_KNOB_ZERO - ram[_KNOB])
        return NOOP if abs(away) <= _STEP else RIGHT if away > 0 else LEFT

    def _paddle(self, ram: list[int], plan: tuple[int, ...], num_frames: int) -> int:
        """Position of the paddle after ``num_frames`` of a plan."""
        x, knob = ram[_PADDLE_X], ram[_KNOB]
        for frame in range(num_frames):
            x += int((_KNOB_ZERO - knob - x) / 2)
            knob = min(max(knob + _KNOB_SPEED[plan[frame // self.frame_skip]], 0), 200)
        return x
