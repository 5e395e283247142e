"""Small skills with the interface that the wrapper asks for."""

from dataclasses import dataclass
from typing import Any

import numpy as np


class LinearSkills:
    """Random linear policies and terminations."""

    discrete, max_duration = True, None

    def __init__(self, state_dim, num_options, num_actions, seed=0, termination_logit=-1.0):
        self.state_dim, self.num_options, self.num_actions = state_dim, num_options, num_actions
        rng = np.random.default_rng(seed)
        self.weights = rng.normal(size=(num_options, num_actions, state_dim))
        self.stop_weights = rng.normal(size=(num_options, state_dim))
        self.termination_logit = termination_logit

    def predict(self, observation, option, deterministic=True, rng=None):
        logits = self.weights[option] @ observation
        return int((logits if deterministic else logits + rng.gumbel(size=len(logits))).argmax())

    def terminates(self, observation, option, rng=None):
        logit = self.stop_weights[option] @ observation + self.termination_logit
        return bool(rng.random() < 1 / (1 + np.exp(-logit)))


@dataclass
class ScriptedSkills:
    """Skills from two functions of observation and option."""

    act: Any
    stop: Any
    num_options: int
    num_actions: int | None
    state_dim: int = 1
    max_duration: int | None = None
    discrete = True

    def predict(self, observation, option, deterministic=True, rng=None):
        return self.act(observation, option)

    def terminates(self, observation, option, rng=None):
        return bool(self.stop(observation, option))
