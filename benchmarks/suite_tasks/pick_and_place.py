"""A scripted arm picks up an object and puts it at a target, in eight phases.

The hand rests while the gripper moves. If it went on to hold its position above the same point, ``descend`` and
``close`` would have one law of the velocity and a command that the state predicts: a single linear policy explains both
at a loss of 0.003 nats per step (so for ``lower`` and ``open``), less than a switch costs, and no likelihood would ask
for eight phases.
"""

import numpy as np

from .task import Episode, Task, make_task

PHASES = ("approach", "descend", "close", "lift", "carry", "lower", "open", "retreat")
GAIN, NOISE, STEP, REACHED = 3.0, 0.02, 0.1, 0.02
HEIGHT = 0.2  # of the arm above object and target while it travels
WIDTH, GRIP_STEP = 0.4, 0.1  # opening of the gripper that holds the object; change of the opening in a step
RETREAT = 0.35


def law(phase: int, state: np.ndarray) -> np.ndarray:
    """Velocity without noise, and command of the gripper (+1 opens it), in a phase.

    :param state: hand (3), opening (1), object (3), target (3)
    """
    hand, thing, target = state[:3], state[4:7], state[7:]
    above = np.array([0.0, 0.0, HEIGHT])
    goals = {
        "approach": thing + above,
        "descend": thing,
        "close": hand,
        "lift": np.array([*hand[:2], HEIGHT]),
        "carry": target + above,
        "lower": target,
        "open": hand,
        "retreat": np.array([*hand[:2], RETREAT]),
    }
    grip = -1.0 if PHASES[phase] in ("close", "lift", "carry", "lower") else 1.0
    return np.array([*GAIN * (goals[PHASES[phase]] - hand), grip])


def _done(phase: int, state: np.ndarray) -> bool:
    opening = state[3]
    if PHASES[phase] == "close":
        return opening <= WIDTH + 1e-9
    if PHASES[phase] == "open":
        return opening >= 1 - 1e-9
    return bool(np.linalg.norm(law(phase, state)[:3]) < GAIN * REACHED)


def _episode(rng: np.random.Generator) -> Episode:
    hand = np.array([*rng.uniform(-0.5, 0.5, 2), rng.uniform(0.2, 0.4)])
    thing, target = (np.array([*rng.uniform(-0.5, 0.5, 2), 0.0]) for _ in range(2))
    opening, held, phase = 1.0, False, 0
    states, actions, labels = [], [], []
    while True:
        state = np.array([*hand, opening, *thing, *target])
        if _done(phase, state):
            phase += 1
        if phase == len(PHASES):
            return Episode(states, actions, labels)
        action = law(phase, state)
        action[:3] += rng.normal(0, NOISE, 3)
        states.append(state)
        actions.append(action)
        labels.append(phase)
        hand = hand + STEP * action[:3]
        opening = float(np.clip(opening + GRIP_STEP * action[3], WIDTH if phase in (2, 3, 4, 5) else 0.0, 1.0))
        held = opening <= WIDTH + 1e-9
        if held:
            thing = hand.copy()


def pick_and_place(seed: int, episodes: int = 200) -> Task:
    """Hand, opening, object and target; the action is a velocity in three dimensions and a gripper at -1 or +1."""
    rng = np.random.default_rng(seed)
    return make_task("pick_and_place", [_episode(rng) for _ in range(episodes)], len(PHASES))
