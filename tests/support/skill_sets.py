"""Small skills: some with just the interface that the wrapper asks for, and whole ones with data for them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from pyro_options.data import Trajectories, pack_bits
from pyro_options.nn import VaryingInputs
from pyro_options.options import CategoricalPolicy, GaussianPolicy, Termination
from pyro_options.skills import Skills

D, K, A = 16, 4, 3  # of the whole ones


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


def states(*shape):
    """Random bits."""
    return torch.randint(0, 2, (*shape, D)).float()


def network(kind):
    """A state network for whole skills."""
    return {
        "linear": lambda: None,
        "varying": lambda: VaryingInputs(torch.tensor([0, 3, 5, 15]), D),
        "deep": lambda: nn.Sequential(VaryingInputs(torch.arange(1, D, 2), D), nn.Linear(8, 6), nn.ReLU()),
        "custom": lambda: nn.Sequential(nn.Linear(D, 5), nn.Tanh()),
    }[kind]()


def make_skills(kind="varying", discrete=True, packed=False, leftover=0.1, **options):
    """Random whole skills over states of 16 bits; ``leftover`` is the weight of options not yet born."""
    policy_type = CategoricalPolicy if discrete else GaussianPolicy
    policy = policy_type(D, K, A, network=network(kind))
    termination = Termination(D, K, network=network(kind), initial_logit=-0.5)
    if not discrete:
        nn.init.normal_(policy.log_scale.value)
    log_weights = torch.log_softmax(torch.randn(K), 0) + np.log1p(-leftover)
    return Skills(policy, termination, log_weights, packed, **options)


def make_data(discrete=True, packed=False, num_episodes=7, num_steps=6):
    """Random episodes that :func:`make_skills` could have made."""
    seen = states(num_episodes, num_steps)
    actions = torch.randint(A, (num_episodes, num_steps)) if discrete else torch.randn(num_episodes, num_steps, A)
    lengths = torch.randint(1, num_steps + 1, (num_episodes,))
    seen = pack_bits(seen) if packed else seen
    return Trajectories(seen, actions, lengths, A if discrete else None, packed=packed)
