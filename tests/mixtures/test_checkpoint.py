"""Mixtures that are stopped and resumed."""

import os
import signal

import pytest
import torch

from pyro_options.errors import FileError, Interrupted, NumericalError
from pyro_options.guides import GrowableGEM, MixtureWeights
from pyro_options.infer import MixtureConfig, MixtureTrainer
from pyro_options.mixtures import GaussianComponents
from pyro_options.models import DPMixture
from pyro_options.persistence import Checkpoint

CONFIG = MixtureConfig(every=5, patience=2, final_steps=8)
ROWS = torch.cat([torch.randn(60, 2, generator=torch.Generator().manual_seed(k)) + 12 * k for k in range(3)])


def make_trainer(checkpoint=None, rows=ROWS, config=CONFIG):
    torch.manual_seed(0)
    model, guide = DPMixture(GaussianComponents(rows)), MixtureWeights(GrowableGEM(1))
    return MixtureTrainer(model, guide, rows, config, checkpoint=checkpoint)


def state(trainer):
    """Every number that training made."""
    tensors = {**trainer.model.state_dict(), **{f"guide.{k}": v for k, v in trainer.guide.state_dict().items()}}
    return {name: tensor.tolist() for name, tensor in tensors.items()} | {"elbo": trainer.history.elbo}


def stop_at(trainer, steps):
    """Presses Ctrl-C before the step of that number."""
    take = trainer.step

    def step():
        if trainer.num_steps == steps:
            os.kill(os.getpid(), signal.SIGINT)
        return take()

    trainer.step = step
    with pytest.raises(Interrupted, match=r"steps are done, with \d components.*resume=True"):
        trainer.run()


def test_resumes_to_the_same_bits(tmp_path):
    whole = make_trainer()
    whole.run()
    assert whole.model.num_components == 3
    path = tmp_path / "mixture.safetensors"
    for steps in (3, 12, whole.num_steps - 3):  # in the first round; after births; after growth
        stop_at(make_trainer(Checkpoint(path, resume=True)), steps)
    resumed = make_trainer(Checkpoint(path, resume=True))
    assert resumed.num_steps == whole.num_steps - 2
    resumed.run()
    assert state(resumed) == state(whole)
    again = make_trainer(Checkpoint(path, resume=True))
    again.run()  # what is settled stays so
    assert state(again) == state(whole)


def test_saves_as_often_as_asked(tmp_path):
    path = tmp_path / "mixture.safetensors"
    trainer = make_trainer(Checkpoint(path, every_steps=1))
    trainer.advance()
    assert not path.exists()  # run() saves
    stop_at(trainer, 5)
    assert make_trainer(Checkpoint(path, resume=True)).num_steps == 10


@pytest.mark.parametrize("change", [{"rows": ROWS + 1}, {"config": MixtureConfig(every=5, patience=2, final_steps=9)}])
def test_other_data_and_settings_are_refused(change, tmp_path):
    path = tmp_path / "mixture.safetensors"
    stop_at(make_trainer(path), 2)
    with pytest.raises(FileError, match="Resume with the settings and data it was started with"):
        make_trainer(Checkpoint(path, resume=True), **change)


@pytest.mark.parametrize(("part", "what"), [("guide", "lost its shape"), ("model", "lost its shape|became nan")])
def test_nan_parameters_stop_the_training(part, what):
    trainer = make_trainer()
    trainer.step()
    with torch.no_grad():
        for parameter in getattr(trainer, part).parameters():
            parameter.fill_(torch.nan)
    with pytest.raises(NumericalError, match=rf"({what}) at step 1 with K = 1") as caught:
        trainer.step()
    assert caught.value.step == 1
