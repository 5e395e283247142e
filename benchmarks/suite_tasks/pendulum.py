"""Gymnasium's pendulum swings up by energy shaping and balances by a linear law; torques saturate at 2."""

import gymnasium
import numpy as np

from .task import Episode, Task, make_task

SWING, BALANCE = 0, 1
BOUND, NOISE = 2.0, 0.1
ENERGY_GAIN, BALANCE_GAINS = 0.3, (10.0, 3.0)
TARGET_ENERGY = 1.0  # above rest at the top, because the simulator's long steps lose some on the way up
NEAR_ANGLE, NEAR_SPEED = 0.3, 2.5
NUM_STEPS = 150


def phase(state: np.ndarray) -> int:
    """Balances near the top at low speed, else swings up. States are cosine and sine of the angle, and the speed."""
    angle = np.arctan2(state[1], state[0])
    return BALANCE if abs(angle) < NEAR_ANGLE and abs(state[2]) < NEAR_SPEED else SWING


def torque(label: int, state: np.ndarray) -> float:
    """The law of a phase, without noise and not yet clipped."""
    cosine, sine, speed = map(float, state)
    if label == BALANCE:
        return -BALANCE_GAINS[0] * np.arctan2(sine, cosine) - BALANCE_GAINS[1] * speed
    energy = speed**2 / 2 + 15 * (cosine - 1)  # of Pendulum-v1, relative to rest at the top
    return -ENERGY_GAIN * (energy - TARGET_ENERGY) * speed


def _episode(env, rng: np.random.Generator) -> Episode:
    """From about rest at the bottom."""
    env.reset(seed=int(rng.integers(2**31)))
    angle, speed = np.pi + rng.normal(0, 0.3), rng.normal(0, 0.5)
    env.unwrapped.state = np.array([angle, speed])
    state = np.array([np.cos(angle), np.sin(angle), speed], np.float32)
    states, actions, labels = [], [], []
    for _ in range(NUM_STEPS):
        label = phase(state)
        action = np.clip(torque(label, state) + rng.normal(0, NOISE), -BOUND, BOUND)
        states.append(state)
        actions.append([action])
        labels.append(label)
        state = env.step(np.array([action], np.float32))[0]
    return Episode(states, actions, labels)


def pendulum(seed: int, episodes: int = 80) -> Task:
    """Swing-up, then balance. The state reveals the phase."""
    rng = np.random.default_rng(seed)
    env = gymnasium.make("Pendulum-v1")
    made = [_episode(env, rng) for _ in range(episodes)]
    env.close()
    return make_task("pendulum", made, 2, action_bounds=(-BOUND, BOUND))
