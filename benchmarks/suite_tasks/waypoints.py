"""A point mass under a PD controller visits four way-points in random order."""

import numpy as np

from .task import Episode, Task, make_task

GOALS = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
STIFFNESS, DAMPING, NOISE = 4.0, 3.0, 0.08
STEP, REACHED = 0.1, 0.1


def command(states: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """The controller's acceleration without noise, for states ``(..., 4)`` of position and velocity."""
    return STIFFNESS * (goals - states[..., :2]) - DAMPING * states[..., 2:]


def _episode(rng: np.random.Generator, bound: float | None, plan: list[int] | None = None, common: int = 4) -> Episode:
    """One demonstration of 60 to 99 steps.

    :param plan: the first goals; later ones are drawn from the first ``common`` goals, never the same twice in a row
    """
    num_steps, position, velocity = rng.integers(60, 100), rng.normal(0, 0.3, 2), np.zeros(2)
    ahead = list(plan or [rng.integers(common)])
    goal = ahead.pop(0)
    states, actions, labels = [], [], []
    for _ in range(num_steps):
        state = np.concatenate([position, velocity])
        action = command(state, GOALS[goal]) + rng.normal(0, NOISE, 2)
        if bound is not None:
            action = np.clip(action, -bound, bound)
        states.append(state)
        actions.append(action)
        labels.append(goal)
        velocity = velocity + STEP * action
        position = position + STEP * velocity
        if np.linalg.norm(position - GOALS[goal]) < REACHED:
            goal = ahead.pop(0) if ahead else rng.choice([k for k in range(common) if k != goal])
    return Episode(states, actions, labels)


def waypoints(seed: int, episodes: int = 200) -> Task:
    """The state is position and velocity, the action an acceleration."""
    rng = np.random.default_rng(seed)
    return make_task("waypoints", [_episode(rng, None) for _ in range(episodes)], len(GOALS))


def waypoints_clipped(seed: int, episodes: int = 200) -> Task:
    """Accelerations are clipped to [-1, 1]: most commands saturate."""
    rng = np.random.default_rng(seed)
    made = [_episode(rng, 1.0) for _ in range(episodes)]
    return make_task("waypoints_clipped", made, len(GOALS), action_bounds=(-1.0, 1.0))


def waypoints_position(seed: int, episodes: int = 200) -> Task:
    """The state is the position alone, so that the velocity acts as noise on the actions."""
    rng = np.random.default_rng(seed)
    made = [_episode(rng, None) for _ in range(episodes)]
    seen = [Episode([state[:2] for state in one.states], one.actions, one.labels) for one in made]
    return make_task("waypoints_position", seen, len(GOALS))


def rare_skill(seed: int, episodes: int = 200, rare: int = 6) -> Task:
    """Way-points of which the last is visited in ``rare`` episodes only, there as the second goal."""
    rng = np.random.default_rng(seed)
    last = len(GOALS) - 1
    chosen = set(rng.choice(episodes, min(rare, episodes), replace=False).tolist())
    plans = [[int(rng.integers(last)), last] if i in chosen else None for i in range(episodes)]
    made = [_episode(rng, None, plan, common=last) for plan in plans]
    return make_task(f"rare_skill_{rare}", made, len(GOALS))
