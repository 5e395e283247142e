"""Small trainings that run to the end or are killed on the way."""

import random

import numpy as np
import pytest
import torch

from pyro_options.discovery import METHODS, build
from pyro_options.infer import TrainConfig, Trainer, set_seed
from support.episodes import make_episodes
from support.methods import required_settings

DATA = make_episodes(24)


def make_trainer(
    name="options-exact",
    checkpoint=None,
    data=DATA,
    epochs=4,
    batch_size=7,
    method=None,
    callbacks=(),
    show=False,
    **train,
):
    """A method of one small layer that checks growth every three steps, on 24 episodes.

    :param method: settings of the method that differ
    :param show: show progress
    :param train: settings of training that differ
    """
    set_seed(0)
    given = {"hidden": (8,), "check_every": 3, "rule": "usage"} | required_settings(name)
    given = {key: value for key, value in given.items() if key not in METHODS[name]}
    parts = build(name, data, **given | (method or {}))
    settings = TrainConfig(epochs=epochs, batch_size=batch_size, progress=show, device="cpu", **train)
    how = {"checkpoint": checkpoint, "callbacks": callbacks}
    return Trainer(parts.model, parts.guide, data, settings, parts.growth, **how)


def finished(trainer):
    """Runs to the end; returns every number that matters, to compare bit for bit."""
    trainer.run()
    tensors = [*trainer.model.state_dict().values(), *trainer.guide.state_dict().values()]
    tensors += [value for p in trainer.parameters() for _, value in sorted(trainer.optimizer.state[p].items())]
    history = trainer.history.to_dict() | {"seconds": 0.0}
    growth = None if trainer.growth is None else trainer.growth.state_dict()
    numbers = [torch.rand(2), np.random.rand(2).tolist(), random.random()]
    return [tensor.tolist() for tensor in tensors], history, growth, trainer.num_steps, str(numbers)


class Killed(BaseException):
    """Stands for a signal that leaves no time for anything."""


def run_until(trainer, steps):
    """Runs, and is killed after so many optimizer steps."""
    take = trainer.step

    def step(batch):
        if trainer.num_steps >= steps:
            raise Killed
        return take(batch)

    trainer.step = step
    with pytest.raises(Killed):
        trainer.run()
