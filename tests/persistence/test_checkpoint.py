"""A training that is stopped and resumed ends with the same bits as one without a break."""

import json
import logging
import os
import random

import numpy as np
import pytest
import torch
from support.episodes import make_episodes
from support.option_models import make_model
from support.small_trainings import DATA, finished, make_trainer, run_until

from pyro_options.data import Trajectories
from pyro_options.discovery import METHODS
from pyro_options.errors import FileError, InputError
from pyro_options.growth import UsageRule
from pyro_options.guides import Exact, GrowableGEM, weights_guide
from pyro_options.handlers import GrowthMessenger
from pyro_options.infer import Constant, TrainConfig, Trainer, set_seed
from pyro_options.models import StateOptionHMM
from pyro_options.options import CategoricalPolicy, Termination
from pyro_options.persistence import Checkpoint
from pyro_options.persistence.checkpoint import plain
from pyro_options.persistence.serialization import random_state, set_random_state
from pyro_options.persistence.storage import Format, previous_of


@pytest.mark.parametrize("name", METHODS)
def test_every_method_resumes_to_the_same_bits(name, tmp_path):
    whole = make_trainer(name)
    expected = finished(whole)
    path = tmp_path / "run.safetensors"
    for steps in (3, 6, 13):  # inside an epoch; after growth; again
        run_until(make_trainer(name, Checkpoint(path, resume=True, every_steps=1)), steps)
    resumed = make_trainer(name, Checkpoint(path, resume=True))
    assert resumed.num_steps == 13
    assert finished(resumed) == expected
    assert bool(whole.history.growth_epochs) == (whole.growth is not None)


@pytest.mark.parametrize("every_steps", [1, 4, 5])
def test_never_more_is_lost_than_one_interval(every_steps, tmp_path):
    path = tmp_path / "run.safetensors"
    for steps in (6, 9, 11):
        run_until(make_trainer(checkpoint=Checkpoint(path, True, every_steps=every_steps)), steps)
        resumed = make_trainer(checkpoint=Checkpoint(path, True))
        assert steps - every_steps <= resumed.num_steps <= steps


def test_checkpoints_are_written_by_time_too(tmp_path):
    path = tmp_path / "run.safetensors"
    run_until(make_trainer(checkpoint=Checkpoint(path)), 6)
    assert not path.exists()
    run_until(make_trainer(checkpoint=Checkpoint(path, every_seconds=0.0)), 6)
    assert make_trainer(checkpoint=Checkpoint(path, resume=True)).num_steps == 6


def test_a_training_with_removals_resumes_and_a_finished_one_stays_finished(tmp_path):
    def trainer(checkpoint=None):
        return make_trainer(checkpoint=checkpoint, method={"rule": "trial", "initial_options": 6}, epochs=3)

    path = tmp_path / "run.safetensors"
    whole = trainer()
    expected = finished(whole)
    assert whole.history.removal_epochs and whole.settled
    run_until(trainer(Checkpoint(path, every_steps=1)), 9)
    resumed = trainer(Checkpoint(path, resume=True))
    assert finished(resumed) == expected
    again = trainer(Checkpoint(path, resume=True))
    assert again.settled
    assert finished(again) == expected


def test_a_longer_training_goes_on_from_a_finished_one(tmp_path):
    path = tmp_path / "run.safetensors"
    make_trainer("options-paper", path, epochs=2).run()
    longer = make_trainer("options-paper", Checkpoint(path, resume=True), epochs=3)
    assert longer.epoch == 2 and longer.settled
    longer.run()
    assert longer.epoch == len(longer.history.objective) == 3


def test_the_previous_checkpoint_is_used_when_the_last_is_damaged(tmp_path, caplog):
    path = tmp_path / "run.safetensors"
    run_until(make_trainer(checkpoint=Checkpoint(path, every_steps=2)), 9)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        resumed = make_trainer(checkpoint=Checkpoint(path, resume=True))
    assert "the numbers that were written" in caplog.text and "previous" in caplog.text
    assert 0 < resumed.num_steps < 8
    assert finished(resumed) == finished(make_trainer())
    previous_of(path).write_bytes(b"nothing")
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"numbers that were written.*run.safetensors.previous"):
        make_trainer(checkpoint=Checkpoint(path, resume=True))


def test_a_kill_between_the_two_renames_loses_nothing(tmp_path):
    path = tmp_path / "run.safetensors"
    run_until(make_trainer(checkpoint=Checkpoint(path, every_steps=2)), 8)
    os.replace(path, previous_of(path))
    assert make_trainer(checkpoint=Checkpoint(path, resume=True)).num_steps == 8


def test_a_failed_write_keeps_the_last_checkpoint_and_leaves_no_temporary_file(tmp_path, monkeypatch):
    path = tmp_path / "run.safetensors"
    trainer = make_trainer(checkpoint=Checkpoint(path, every_steps=2))
    run_until(trainer, 4)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space"):
        trainer.saver.save()
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.safetensors", "run.safetensors.previous"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clip_norm": 1.0}, "train clip_norm = 10.0 but got 1.0"),
        ({"temperature": Constant(0.5)}, "train temperature"),
        ({"data": make_episodes(24, seed=1)}, "the same data"),
        ({"method": {"check_every": 4}}, "growth every = 3 but got 4"),
        ({"method": {"rule": UsageRule(0.2)}}, "growth rule"),
        ({"method": {"hidden": (4,)}}, r"of shape \(4, 3\)|shape"),
        ({"method": {"hidden": ()}}, "the parameters of this model and guide"),
        ({"name": "options-paper"}, "the parameters of this model and guide"),
        ({"name": "ddo"}, "the same growth"),
    ],
)
def test_resuming_with_other_settings_is_refused(change, message, tmp_path):
    path = tmp_path / "run.safetensors"
    make_trainer(checkpoint=path, epochs=1).run()
    with pytest.raises(FileError, match=message):
        make_trainer(**{"epochs": 1, "checkpoint": Checkpoint(path, resume=True)} | change)


def test_resuming_with_other_facts_about_the_run_is_refused(tmp_path):
    path = tmp_path / "run.safetensors"
    make_trainer(checkpoint=Checkpoint(path, about={"cost": 1.0}), epochs=1).run()
    make_trainer(checkpoint=Checkpoint(path, True, about={"cost": 1.0}), epochs=1)
    with pytest.raises(FileError, match=r"about cost = 1.0 but got 2.0"):
        make_trainer(checkpoint=Checkpoint(path, True, about={"cost": 2.0}), epochs=1)


def test_an_unfinished_training_and_a_foreign_file_are_not_overwritten(tmp_path):
    path = tmp_path / "run.safetensors"
    run_until(make_trainer(checkpoint=Checkpoint(path, every_steps=1)), 5)
    with pytest.raises(InputError, match="no unfinished run but got one of 5 steps"):
        make_trainer(checkpoint=path)
    make_trainer(checkpoint=Checkpoint(path, resume=True)).run()
    make_trainer(checkpoint=path)  # what is finished may go
    path.write_text("my notes")
    with pytest.raises(FileError, match=r"notes|header"):
        make_trainer(checkpoint=path)
    with pytest.raises(FileError, match="the format"):
        Format("other", 1, "nobody").write(path, {}, {"x": torch.zeros(1)})
        make_trainer(checkpoint=path)


def test_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "run.safetensors"
    make_trainer(checkpoint=path, epochs=1).run()
    config, tensors = Trainer.FORMAT.read(path)
    Format(Trainer.FORMAT.name, Trainer.FORMAT.version + 1, "the future").write(path, config, tensors)
    with pytest.raises(
        FileError, match=f"version {Trainer.FORMAT.version} of it but got '{Trainer.FORMAT.version + 1}'"
    ):
        make_trainer(checkpoint=Checkpoint(path, resume=True), epochs=1)


@pytest.mark.parametrize("missing", ["num_components", "rates", "random", "history", "position"])
def test_a_file_that_lacks_something_is_refused(missing, tmp_path):
    path = tmp_path / "run.safetensors"
    make_trainer(checkpoint=path, epochs=1).run()
    config, tensors = Trainer.FORMAT.read(path)
    del config["state"][missing]
    Trainer.FORMAT.write(path, config, tensors)
    with pytest.raises(FileError, match=missing):
        make_trainer(checkpoint=Checkpoint(path, resume=True), epochs=1)


def test_settings_are_saved_as_json_without_code(tmp_path):
    described = plain({"a": Constant(1.0), "b": (1, None), "c": make_model})
    assert described == {"a": {"type": "Constant", "value": 1.0}, "b": [1, None], "c": "make_model"}
    path = tmp_path / "run.safetensors"
    make_trainer(checkpoint=path, epochs=1).run()
    config, _ = Trainer.FORMAT.read(path)
    assert json.loads(json.dumps(config)) == config
    assert b"pickle" not in path.read_bytes()


def test_random_states_are_restored():
    set_seed(3)
    np.random.randn()  # leaves half of a pair behind
    random.gauss(0, 1)
    state = random_state()

    def draw():
        return [torch.randn(3).tolist(), np.random.randn(3).tolist(), random.gauss(0, 1), random.random()]

    first = draw()
    set_seed(4)
    set_random_state(*state)
    assert draw() == first


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"every_seconds": -1.0}, "every_seconds >= 0"),
        ({"every_steps": 0}, "every_steps >= 1"),
        ({"path": "/nowhere/at/all/run"}, "a folder"),
    ],
)
def test_bad_settings(given, message):
    with pytest.raises(InputError, match=message):
        Checkpoint(**{"path": "run"} | given)


def test_continuous_actions_and_models_put_together_by_hand(tmp_path):
    path, data = tmp_path / "run.safetensors", Trajectories(DATA.states, torch.randn(24, 5, 2), DATA.lengths)
    expected = finished(make_trainer("options-paper", data=data))
    run_until(make_trainer("options-paper", Checkpoint(path, every_steps=1), data=data), 7)
    assert finished(make_trainer("options-paper", Checkpoint(path, resume=True), data=data)) == expected

    def by_hand(checkpoint=None):
        set_seed(1)
        guide = Exact(weights_guide("truncated", 3))
        config = TrainConfig(epochs=2, batch_size=8, progress=False, device="cpu")
        return Trainer(make_model("truncated"), guide, DATA, config, checkpoint=checkpoint)

    expected = finished(by_hand())
    run_until(by_hand(Checkpoint(path.with_name("other"), every_steps=1)), 2)
    assert finished(by_hand(Checkpoint(path.with_name("other"), resume=True))) == expected


def test_a_state_dependent_model_resumes(tmp_path):
    def trainer(checkpoint=None):
        set_seed(2)
        model = StateOptionHMM(CategoricalPolicy(3, 2, 4), Termination(3, 2), 3)
        config = TrainConfig(epochs=2, batch_size=8, progress=False, device="cpu")
        guide = Exact(GrowableGEM(2))
        growth = GrowthMessenger([model, guide], UsageRule(0.1), every=2, site="actions")
        return Trainer(model, guide, DATA, config, growth, checkpoint=checkpoint)

    path = tmp_path / "run.safetensors"
    expected = finished(trainer())
    run_until(trainer(Checkpoint(path, every_steps=1)), 4)
    resumed = trainer(Checkpoint(path, resume=True))
    assert resumed.num_steps == 4 and resumed.model.num_options > 2
    assert finished(resumed) == expected
