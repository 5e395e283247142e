"""A grid world as in CompILE: objects of six kinds, of which a hidden list of three to five is fetched in order.

The border of the grid is wall; objects do not block the way. The agent takes a shortest path, at random where two
directions come nearer, and picks up what it came for.
"""

import numpy as np

from .task import Episode, Task, make_task

SIZE, NUM_KINDS = 10, 6
MOVES = np.array([[0, -1], [0, 1], [-1, 0], [1, 0]])  # up, down, left, right in x, y
PICKUP = len(MOVES)
AGENT, WALL = NUM_KINDS, NUM_KINDS + 1  # planes of the symbolic state after those of the kinds


def nearer(agent: np.ndarray, goal: np.ndarray) -> list[int]:
    """The actions that the demonstrator chooses from."""
    dx, dy = goal - agent
    moves = [3 if dx > 0 else 2] * bool(dx) + [1 if dy > 0 else 0] * bool(dy)
    return moves or [PICKUP]


def symbolic(agent: np.ndarray, things: dict[int, np.ndarray]) -> np.ndarray:
    """One plane of bits for each kind of object, for the agent and for the walls: 800 entries."""
    planes = np.zeros((NUM_KINDS + 2, SIZE, SIZE), np.float32)
    for kind, (x, y) in things.items():
        planes[kind, y, x] = 1
    planes[AGENT, agent[1], agent[0]] = 1
    planes[WALL] = 1
    planes[WALL, 1:-1, 1:-1] = 0
    return planes.ravel()


def coordinates(agent: np.ndarray, things: dict[int, np.ndarray]) -> np.ndarray:
    """The agent's cell, and for each kind of object where it is from here and whether it is still there."""
    state = [*agent]
    for kind in range(NUM_KINDS):
        state += [*(things[kind] - agent), 1] if kind in things else [0, 0, 0]
    return np.array(state, np.float32)


def _episode(rng: np.random.Generator, view) -> Episode:
    inner = SIZE - 2
    cells = rng.choice(inner * inner, NUM_KINDS + 1, replace=False)
    places = np.stack([cells % inner, cells // inner], -1) + 1
    agent, things = places[-1], dict(enumerate(places[:-1]))
    wanted = rng.permutation(NUM_KINDS)[: rng.integers(3, 6)].tolist()
    states, actions, labels = [], [], []
    for kind in wanted:
        while kind in things:
            action = int(rng.choice(nearer(agent, things[kind])))
            states.append(view(agent, things))
            actions.append(action)
            labels.append(kind)
            if action == PICKUP:
                del things[kind]
            else:
                agent = agent + MOVES[action]
    return Episode(states, actions, labels)


def _grid(name: str, view, seed: int, episodes: int) -> Task:
    rng = np.random.default_rng(seed)
    return make_task(name, [_episode(rng, view) for _ in range(episodes)], NUM_KINDS, PICKUP + 1)


def grid_symbolic(seed: int, episodes: int = 320) -> Task:
    """The state is the grid in bits."""
    return _grid("grid_symbolic", symbolic, seed, episodes)


def grid_coordinates(seed: int, episodes: int = 320) -> Task:
    """The same demonstrations; the state is where objects are from the agent."""
    return _grid("grid_coordinates", coordinates, seed, episodes)
