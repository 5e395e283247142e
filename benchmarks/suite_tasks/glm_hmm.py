"""Binary choices of a mouse that is engaged or biased: a GLM-HMM with three states as in Ashwood et al. (2022)."""

import torch

from pyro_options.data import DECISION_STATES, Trajectories, simulated_decisions

from .task import Task


def glm_hmm(seed: int, episodes: int = 45) -> Task:
    """Sessions of about 200 trials. Terminations do not depend on the inputs; an entry of the state is constant."""
    truth = simulated_decisions(seed, episodes)
    data = truth.trajectories
    stimulus, previous, stay_or_switch = data.states.unbind(-1)
    states = torch.stack([stimulus, torch.ones_like(stimulus), previous, stay_or_switch], -1)
    data = Trajectories(states, data.actions, data.lengths, num_actions=2)
    return Task("glm_hmm", data, truth.states, len(DECISION_STATES))
