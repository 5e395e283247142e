"""BabyAI's own bot unlocks a door and picks up the box behind it. Needs the extra ``minigrid``."""

import gymnasium
import numpy as np

from pyro_options.errors import require

from .task import Episode, Task, make_task

LEVEL = "BabyAI-UnlockPickup-v0"
SUBGOALS = ("GoNextTo", "Pickup", "Open", "Drop", "Explore")
NUM_ACTIONS, NUM_DIRECTIONS = 7, 4


def view(env) -> np.ndarray:
    """The whole grid in bits (kind, colour and state of every cell), the agent's direction and what it carries."""
    constants = require("minigrid.core.constants", "minigrid")
    level = env.unwrapped
    grid = level.grid.encode()
    grid[level.agent_pos] = (constants.OBJECT_TO_IDX["agent"], 0, 0)
    sizes = len(constants.OBJECT_TO_IDX), len(constants.COLOR_TO_IDX), len(constants.STATE_TO_IDX)
    bits = [np.eye(size, dtype=np.float32)[grid[..., i]].ravel() for i, size in enumerate(sizes)]
    carried = np.zeros(len(constants.OBJECT_TO_IDX), np.float32)
    if level.carrying is not None:
        carried[constants.OBJECT_TO_IDX[level.carrying.type]] = 1
    return np.concatenate([*bits, np.eye(NUM_DIRECTIONS, dtype=np.float32)[level.agent_dir], carried])


def _episode(env, seed: int) -> Episode:
    bot_module = require("minigrid.utils.baby_ai_bot", "minigrid")
    env.reset(seed=seed)
    bot = bot_module.BabyAIBot(env)
    states, actions, labels = [], [], []
    ended = False
    while not ended:
        action = bot.replan()
        states.append(view(env))
        actions.append(int(action))
        labels.append(SUBGOALS.index(type(bot.stack[-1]).__name__.removesuffix("Subgoal")))
        _, _, terminated, truncated, _ = env.step(action)
        ended = terminated or truncated
    return Episode(states, actions, labels)


def babyai(seed: int, episodes: int = 200) -> Task:
    """The label is the kind of the sub-goal on top of the bot's stack."""
    require("minigrid", "minigrid")  # registers its levels
    env = gymnasium.make(LEVEL)
    seeds = np.random.default_rng(seed).integers(2**31, size=episodes)
    made = [_episode(env, int(one)) for one in seeds]
    env.close()
    return make_task("babyai", made, len({label for one in made for label in one.labels}), NUM_ACTIONS)
