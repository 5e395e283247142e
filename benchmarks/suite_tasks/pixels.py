"""An agent on a grey image visits four goals that the image does not show, in random order."""

import numpy as np

from .task import Episode, Task, make_task

SIZE = 12
GOALS = np.array([[2, 2], [9, 2], [9, 9], [2, 9]])
MOVES = np.array([[0, -1], [0, 1], [-1, 0], [1, 0]])  # up, down, left, right in x, y
NOISE = 0.05  # probability of a random action


def image(cell: np.ndarray) -> np.ndarray:
    """The agent as a bright pixel with grey neighbours, ``(SIZE * SIZE,)`` in [0, 1]."""
    picture = np.zeros((SIZE + 2, SIZE + 2), np.float32)
    x, y = cell + 1
    picture[y, x] = 1
    for dx, dy in MOVES:
        picture[y + dy, x + dx] = 0.5
    return picture[1:-1, 1:-1].ravel()


def nearer(cell: np.ndarray, goal: np.ndarray) -> list[int]:
    """The actions that come nearer to a goal."""
    dx, dy = goal - cell
    return [3 if dx > 0 else 2] * bool(dx) + [1 if dy > 0 else 0] * bool(dy)


def _episode(rng: np.random.Generator) -> Episode:
    cell, goal = rng.integers(SIZE, size=2), int(rng.integers(len(GOALS)))
    states, actions, labels = [], [], []
    for _ in range(rng.integers(60, 100)):
        while (cell == GOALS[goal]).all():
            goal = int(rng.choice([k for k in range(len(GOALS)) if k != goal]))
        action = rng.integers(len(MOVES)) if rng.random() < NOISE else rng.choice(nearer(cell, GOALS[goal]))
        states.append(image(cell))
        actions.append(int(action))
        labels.append(goal)
        cell = np.clip(cell + MOVES[action], 0, SIZE - 1)
    return Episode(states, actions, labels)


def pixels_hidden_goal(seed: int, episodes: int = 200) -> Task:
    """The state is the image of the agent, the actions up, down, left and right."""
    rng = np.random.default_rng(seed)
    return make_task("pixels_hidden_goal", [_episode(rng) for _ in range(episodes)], len(GOALS), len(MOVES))
