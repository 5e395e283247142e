"""A hall with four switches: tasks that are composed of the same subtasks."""

from collections import deque

import gymnasium as gym
import numpy as np

from pyro_options.data.collection import collect
from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check

UP, RIGHT, DOWN, LEFT, PRESS = range(5)
_MOVES = {UP: (-1, 0), RIGHT: (0, 1), DOWN: (1, 0), LEFT: (0, -1)}

#: walls are #, digits are switches
_MAP = (
    "#########",
    "#       #",
    "# 0   1 #",
    "#       #",
    "#       #",
    "#       #",
    "# 3   2 #",
    "#       #",
    "#########",
)

_FREE = [(i, j) for i, row in enumerate(_MAP) for j, char in enumerate(row) if char != "#"]
_CELL = {place: index for index, place in enumerate(_FREE)}
_SWITCHES = [next((i, j) for i, j in _FREE if _MAP[i][j] == str(k)) for k in range(4)]


def _neighbour(place: tuple[int, int], action: int) -> tuple[int, int]:
    """The place after a move; walls block it."""
    moved = place[0] + _MOVES[action][0], place[1] + _MOVES[action][1]
    return moved if moved in _CELL else place


def _distances(goal: tuple[int, int]) -> dict[tuple[int, int], int]:
    """Shortest-path length from every place to ``goal``."""
    steps, queue = {goal: 0}, deque([goal])
    while queue:
        place = queue.popleft()
        for action in _MOVES:
            near = _neighbour(place, action)
            if near not in steps:
                steps[near] = steps[place] + 1
                queue.append(near)
    return steps


_STEPS_TO_SWITCH = [_distances(place) for place in _SWITCHES]


class SwitchesEnv(gym.Env):
    """Press switches in a hidden order.

    Random moves rarely press even two switches in order. An agent with skills that go to a switch and press it explores
    orders instead of moves.

    ## Action Space
    ``Discrete(5)``: up, right, down, left, press.

    ## Observation Space
    ``Box`` of zeros and ones: the agent's place, one-hot; whether the last action pressed any switch (a click); for
    each switch whether it is on. The order is not observed.

    ## Rewards
    1 / length of the order for each switch pressed in its turn. Pressing another switch has no effect.

    ## Starting State
    A random place, all switches off.

    ## Episode End
    Terminates when the whole order is pressed, which is a success (``info["is_success"]``); truncated after
    ``max_steps`` actions.

    :param order: switches to press, or the number of random switches to draw at each reset
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}

    def __init__(
        self, order: tuple[int, ...] | int = (0, 1, 2, 3), max_steps: int = 100, render_mode: str | None = None
    ):
        check(render_mode in (None, "rgb_array"), 'render_mode None or "rgb_array"', repr(render_mode))
        check(max_steps >= 1, "max_steps >= 1", max_steps)
        self._task = self._checked(range(order) if isinstance(order, int) else order)
        self._draw_order = isinstance(order, int)
        self.max_steps, self.render_mode = max_steps, render_mode
        self.action_space = gym.spaces.Discrete(5)
        self.observation_space = gym.spaces.Box(0.0, 1.0, (len(_FREE) + 5,), np.float32)
        self.place, self._num_steps, self._click = _FREE[0], 0, False
        self.order: tuple[int, ...] = self._task
        self.on: list[int] = []

    @staticmethod
    def _checked(order) -> tuple[int, ...]:
        order = tuple(int(k) for k in order)
        good = len(order) >= 1 and len(set(order)) == len(order) and set(order) <= set(range(4))
        check(good, "an order of different switches in [0, 3]", order)
        return order

    def _observation(self) -> np.ndarray:
        observation = np.zeros(len(_FREE) + 5, np.float32)
        observation[_CELL[self.place]] = 1
        observation[len(_FREE)] = self._click
        observation[[len(_FREE) + 1 + k for k in self.on]] = 1
        return observation

    @property
    def next_switch(self) -> int:
        """The switch to press next."""
        return self.order[len(self.on)]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.order = (
            tuple(self.np_random.permutation(4)[: len(self._task)].tolist()) if self._draw_order else self._task
        )
        self.place = _FREE[self.np_random.integers(len(_FREE))]
        self.on, self._num_steps, self._click = [], 0, False
        return self._observation(), {"is_success": False}

    def step(self, action):
        check(self.action_space.contains(action), "an action in [0, 4]", action)
        check(len(self.on) < len(self.order), "a running episode", "a finished one", "Call reset() first.")
        reward, self._click = 0.0, bool(action == PRESS and self.place in _SWITCHES)
        if action != PRESS:
            self.place = _neighbour(self.place, int(action))
        elif self.place == _SWITCHES[self.next_switch]:
            self.on.append(self.next_switch)
            reward = 1 / len(self.order)
        self._num_steps += 1
        success = len(self.on) == len(self.order)
        truncated = not success and self._num_steps >= self.max_steps
        return self._observation(), reward, success, truncated, {"is_success": success}

    def render(self):
        return _picture(self.place, self.on) if self.render_mode == "rgb_array" else None


def _picture(place: tuple[int, int], on: list[int], size: int = 16) -> np.ndarray:
    """Walls dark grey, switches light grey and yellow when on, the agent black."""
    colors = np.full((len(_MAP), len(_MAP[0]), 3), 245, np.uint8)
    for i, row in enumerate(_MAP):
        for j, char in enumerate(row):
            if char == "#":
                colors[i, j] = (130, 130, 140)
    for k, (i, j) in enumerate(_SWITCHES):
        colors[i, j] = (240, 200, 40) if k in on else (205, 205, 210)
    image = colors.repeat(size, 0).repeat(size, 1)
    top, left, margin = place[0] * size, place[1] * size, size // 5
    image[top + margin : top + size - margin, left + margin : left + size - margin] = (20, 20, 20)
    return image


class SwitchesExpert:
    """Takes a shortest path to each switch in turn, using the hidden order.

    :param env: the environment to act in; the order is read from it
    """

    def __init__(self, env: gym.Env):
        check(isinstance(env.unwrapped, SwitchesEnv), "the Switches environment", env)
        self.env: SwitchesEnv = env.unwrapped  # type: ignore[assignment]

    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        """The interface of a Stable-Baselines3 policy."""
        steps = _STEPS_TO_SWITCH[self.env.next_switch]
        place = self.env.place
        if steps[place] == 0:
            return PRESS, state
        return min(_MOVES, key=lambda action: steps[_neighbour(place, action)]), state


def agent_space(env: gym.Env, observation: np.ndarray) -> np.ndarray:
    """The observation without the states of the switches: place and click. Skills on it transfer between orders."""
    return observation[:-4]


def switches_demonstrations(num_episodes: int = 400, seed: int = 0, epsilon: float = 0.0) -> Trajectories:
    """Episodes in which the expert presses two random switches; states are those of :func:`agent_space`."""
    env = SwitchesEnv(order=2)
    return collect(env, SwitchesExpert(env), num_episodes, seed=seed, epsilon=epsilon, observe=agent_space)
