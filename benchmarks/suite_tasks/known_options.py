"""Five options of the library's own model, with few episodes."""

import torch

from pyro_options.data import synthetic_options

from .task import PADDING, Task


def five_options(seed: int, episodes: int = 30) -> Task:
    """Sampled from the model that is fitted: the only task of the suite of which that is true."""
    truth = synthetic_options(5, episodes, seed=seed)
    labels = torch.where(truth.trajectories.mask, truth.options, PADDING)
    return Task("five_options", truth.trajectories, labels, 5, own_model=True)
