"""Pong from RAM: predicts where the ball arrives and returns it at a steep angle, with the edge of the paddle."""

from .ram_expert import RamExpert, plans, signed

NOOP, UP, DOWN = 0, 2, 3

# bytes of the RAM, found by experiment; the knob is valid only in even frames, _NEXT_PADDLE_Y is drawn a frame later
_KNOB, _CLOCK, _PADDLE_Y, _NEXT_PADDLE_Y = 4, 8, 51, 60
_BALL_X, _BALL_Y, _BALL_DOWN, _BALL_LEFT = 49, 54, 56, 58

_TOP, _BOTTOM, _PADDLE_X = 45, 206, 188
_KNOB_SPEED, _KNOB_RANGE = {NOOP: 0, UP: -6, DOWN: 6}, (38, 204)
_MIDDLE = 120
_STEP = 12  # half the paddle's movement per action
_HORIZON = 12  # frames before arrival from which all action sequences are searched
_EDGES = (-0.5, 13.5)  # a ball that hits here leaves at two pixels per frame, faster than the opponent moves
_PADDLE = (-1.5, 14.5)  # balls that arrive outside are missed


def _arrival(ram: list[int]) -> tuple[int, int]:
    """The y at which an approaching ball reaches the paddle, and the number of frames until then."""
    x, y, right, down = ram[_BALL_X], ram[_BALL_Y], -signed(ram[_BALL_LEFT]), signed(ram[_BALL_DOWN])
    num_frames = 0
    while x < _PADDLE_X:
        x, y, num_frames = x + right, y + down, num_frames + 1
        if (y < _TOP and down < 0) or (y > _BOTTOM and down > 0):
            down = -down
            y += down
    return y, num_frames


class PongExpert(RamExpert):
    """In odd frames, when the RAM does not show the knob, infers it from the movement of the paddle."""

    def act(self, ram, memory):
        knob = ram[_KNOB] if ram[_CLOCK] % 2 == 0 else self._infer_knob(ram, memory)
        action = self._choose(ram, knob)
        return action, (ram[_NEXT_PADDLE_Y], knob, ram[_CLOCK], action)

    def _choose(self, ram: list[int], knob: float) -> int:
        x, y, right = ram[_BALL_X], ram[_BALL_Y], -signed(ram[_BALL_LEFT])
        if y == 0 or right <= 0 or x >= _PADDLE_X + 2:
            return self._approach(y - 7 if y and x > 150 else _MIDDLE, knob)
        y, num_frames = _arrival(ram)
        if num_frames > _HORIZON:
            return self._approach(min((y - edge for edge in _EDGES), key=lambda goal: abs(goal - knob)), knob)

        def cost(plan):
            _, shown, _ = self._paddle(ram[_NEXT_PADDLE_Y], knob, ram[_CLOCK], plan, num_frames)
            hit = y - (ram[_PADDLE_Y] if num_frames == 0 else shown)
            lost = not _PADDLE[0] <= hit <= _PADDLE[1]
            return lost, abs(hit - 6.5) if lost else min(abs(hit - edge) for edge in _EDGES), plan.count(NOOP) == 0

        return min(plans((NOOP, UP, DOWN), num_frames, self.frame_skip), key=cost)[0]

    def _approach(self, goal: float, knob: float) -> int:
        away = goal - knob
        return NOOP if abs(away) <= _STEP else DOWN if away > 0 else UP

    def _infer_knob(self, ram: list[int], memory) -> float:
        """The knob after the action that best explains the paddle's movement, which may be another than was chosen."""
        if memory is None:
            return ram[_NEXT_PADDLE_Y]
        y, knob, clock, action = memory
        errors = {}
        for done in (action, NOOP, UP, DOWN):
            moved, _, turned = self._paddle(y, knob, clock, (done,), self.frame_skip)
            errors[done] = ram[_NEXT_PADDLE_Y] - moved, turned
        error, turned = min(errors.values(), key=lambda pair: abs(pair[0]))
        return turned + error / 0.75  # two updates, each by half of the distance, cover three quarters of it

    def _paddle(self, y: float, knob: float, clock: int, plan: tuple[int, ...], num_frames: int):
        """The paddle's position, its drawn position, and the knob after ``num_frames`` of a plan."""
        shown = y
        for frame in range(num_frames):
            turned = knob + _KNOB_SPEED[plan[frame // self.frame_skip]]
            knob = min(max(turned, _KNOB_RANGE[0]), _KNOB_RANGE[1])
            shown = y
            if (clock + frame + 1) % 2 == 0:
                y = (knob + y) // 2
        return y, shown, knob
