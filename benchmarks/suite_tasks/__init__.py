"""Tasks with known sub-tasks, to compare what discovery finds with what is there.

A task is a function of a seed and a number of episodes. All but ``five_options`` come from controllers, scripts and
environments, not from the model that is fitted.
"""

from collections.abc import Callable
from functools import partial

from .babyai import babyai
from .glm_hmm import glm_hmm
from .grid_world import grid_coordinates, grid_symbolic
from .known_options import five_options
from .one_policy import random_actions, random_continuous, smooth_discrete, smooth_policy
from .pendulum import pendulum
from .pick_and_place import pick_and_place
from .pixels import pixels_hidden_goal
from .rescaling import Rescaled, rescaled
from .task import PADDING, Task
from .waypoints import rare_skill, waypoints, waypoints_clipped, waypoints_position

#: tasks by name
TASKS: dict[str, Callable[..., Task]] = {
    "waypoints": waypoints,
    "waypoints_clipped": waypoints_clipped,
    "waypoints_position": waypoints_position,
    "pick_and_place": pick_and_place,
    "grid_symbolic": grid_symbolic,
    "grid_coordinates": grid_coordinates,
    "babyai": babyai,
    "pixels_hidden_goal": pixels_hidden_goal,
    "pendulum": pendulum,
    "glm_hmm": glm_hmm,
    "random_actions": random_actions,
    "random_continuous": random_continuous,
    "smooth_policy": smooth_policy,
    "smooth_discrete": smooth_discrete,
    "rare_skill_6": partial(rare_skill, rare=6),
    "rare_skill_20": partial(rare_skill, rare=20),
    "five_options": five_options,
}

__all__ = ["PADDING", "TASKS", "Rescaled", "Task", "rescaled"]
