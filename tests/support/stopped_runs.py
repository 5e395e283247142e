"""Small trainings that run to the end or die on the way."""

import random

import numpy as np
import pytest
import torch

from pyro_options.discovery import METHODS, build
from pyro_options.infer import TrainConfig, Trainer, set_seed
from support.helpers import make_episodes

DATA = make_episodes(24)


def make_trainer(name="options-exact", checkpoint=None, data=DATA, epochs=4, method=None, **train):
    set_seed(0)
    given = {"hidden": (8,), "check_every": 3, "rule": "usage"} | (
        {"num_options": 3} if METHODS[name].get("prior") == "uniform" else {}
    )
    given = {key: value for key, value in given.items() if key not in METHODS[name]}
    parts = build(name, data, **given | (method or {}))
    settings = TrainConfig(epochs=epochs, batch_size=7, progress=False, device="cpu", **train)
    return Trainer(parts.model, parts.guide, data, settings, parts.growth, checkpoint=checkpoint)


def finished(trainer):
    """Runs to the end; every number that matters, for comparison to the bit."""
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
    """Runs, and dies after so many optimizer steps."""
    take = trainer.step

    def step(batch):
        if trainer.num_steps >= steps:
            raise Killed
        return take(batch)

    trainer.step = step
    with pytest.raises(Killed):
        trainer.run()
