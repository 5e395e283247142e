"""Callbacks of the trainer and of discover, the progress display and the TensorBoard writer."""

import subprocess
import sys

import pytest
import torch
from support.episodes import make_episodes
from support.small_trainings import finished, make_trainer

from pyro_options.discovery import discover
from pyro_options.errors import InputError
from pyro_options.infer import Callback, Phase, ProgressBar, TensorBoard
from pyro_options.kernels.registry import KERNELS


class Recorder(Callback):
    """Writes down everything that it is told."""

    def __init__(self):
        self.told, self.epochs = [], []

    def on_phase(self, phase):
        self.told.append(str(phase))

    def on_start(self, trainer, epochs):
        self.told.append(("start", trainer.epoch, epochs))

    def on_status(self, status):
        self.told.append(("status", status))

    def on_step(self, trainer):
        self.told.append("step")

    def on_epoch(self, trainer):
        self.epochs.append((trainer.epoch, len(trainer.history.objective)))
        self.told.append("epoch")

    def on_growth(self, trainer, event):
        self.told.append(("growth", event.num_born, trainer.model.num_options))

    def on_end(self, trainer):
        self.told.append("end")


def test_a_trainer_tells_of_steps_epochs_and_growth():
    recorder, unwatched = Recorder(), finished(make_trainer(epochs=2))
    trainer = make_trainer(epochs=2, callbacks=[recorder])
    assert finished(trainer) == unwatched
    told = [one for one in recorder.told if one != ("status", "compiling, once")]
    assert told[0] == ("start", 0, 2) and told[-1] == "end"
    assert told.count("step") == trainer.num_steps == 8 and recorder.epochs == [(1, 1), (2, 2)]
    growth = [one for one in told if one[0] == "growth"]
    assert len(growth) == len(trainer.growth.history) >= 2
    assert growth[0] == ("growth", 1, 2) and told[told.index(growth[0]) - 1] == ("status", "growth check")
    assert told[told.index(growth[0]) - 2] == "epoch"  # an epoch is told of before the check that follows it


def test_the_first_run_says_that_it_compiles(monkeypatch):
    for kernels in KERNELS.values():
        monkeypatch.setattr(kernels, "used", False)
    first, second = Recorder(), Recorder()
    make_trainer(epochs=1, callbacks=[first]).run()
    assert first.told[:4] == [("start", 0, 1), ("status", "compiling, once"), ("status", ""), "step"]
    make_trainer(epochs=1, callbacks=[second]).run()
    assert ("status", "compiling, once") not in second.told


def test_the_end_is_told_after_an_error_too():
    class Failing(Recorder):
        def on_epoch(self, trainer):
            raise RuntimeError("of the user")

    recorder = Failing()
    with pytest.raises(RuntimeError, match="of the user"):
        make_trainer(callbacks=[recorder]).run()
    assert recorder.told[-1] == "end"


def test_other_objects_are_refused():
    with pytest.raises(InputError, match="Derive your class from"):
        make_trainer(callbacks=[print])


def test_discover_tells_its_phases(tmp_path):
    recorder, data = Recorder(), make_episodes(32)
    skills = discover(data, epochs=10, progress=False, callbacks=[recorder], hidden="auto", weight_scale=None)
    phases = [one for one in recorder.told if isinstance(one, str) and one not in ("step", "epoch", "end")]
    expected = [f"capacity {n} of 3, hidden = {widths}" for n, widths in ((1, ()), (2, (64,)), (3, (64, 64)))]
    expected += [f"restart {n} of 4" for n in range(1, 5)] + ["training"]
    expected += [f"other start {n} of 2" for n in (1, 2)] + [f"one policy {n} of 2" for n in (1, 2)]
    assert phases == expected
    starts = [one for one in recorder.told if one[0] == "start"]
    assert len(starts) == len(expected)
    assert starts[0] == ("start", 0, 2) and starts[7] == ("start", 2, 8)  # the best restart goes on for the rest
    again = discover(data, epochs=10, progress=False, hidden="auto", weight_scale=None)
    assert torch.equal(again.log_weights, skills.log_weights)


def test_the_display_says_what_runs(capsys):
    bar, trainer = ProgressBar(), make_trainer(epochs=1)
    bar.on_phase(Phase("restart", 2, 4))
    bar.on_start(trainer, 3)
    bar.on_status("compiling, once")
    shown = capsys.readouterr().err
    assert "restart 2 of 4" in shown and "0/3" in shown and shown.rstrip().endswith("compiling, once]")
    bar.on_status("")
    trainer.run()
    bar.on_epoch(trainer)
    bar.on_end(trainer)
    last = capsys.readouterr().err.rstrip().split("\r")[-1]
    assert "1/3" in last and f"objective={trainer.history.objective[-1]:.3f}, K={trainer.model.num_options}" in last
    assert "compiling" not in last


def test_the_bar_is_there_if_progress_is_wanted(capsys):
    trainer = make_trainer(epochs=1, callbacks=[Recorder()], show=True)
    trainer.run()
    assert "1/1" in capsys.readouterr().err
    make_trainer(epochs=1).run()
    assert not capsys.readouterr().err


def curves(folder):
    """Times and values of every curve of a run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {name: [(e.step, e.value) for e in found.Scalars(name)] for name in found.Tags()["scalars"]}


def test_tensorboard_reads_the_curves(tmp_path):
    trainer = make_trainer(callbacks=[TensorBoard(tmp_path / "runs")])
    history = trainer.run()
    found = curves(tmp_path / "runs")
    steps = [4, 8, 12, 16]
    assert [time for time, _ in found["train/elbo"]] == steps
    assert [value for _, value in found["train/elbo"]] == pytest.approx(history.objective, rel=1e-6)
    assert found["options/K"] == list(zip(steps, history.num_options))
    assert {"train/temperature", "train/entropy_weight", "train/learning_rate"} < found.keys()
    events = trainer.growth.history
    assert [value for _, value in found["options/born"]] == [event.num_born for event in events]
    used = [int((event.usage.posterior >= 0.01).sum()) for event in events]
    assert [value for _, value in found["options/used"]] == used


def test_a_relaxed_objective_is_not_called_an_elbo(tmp_path):
    make_trainer("options-paper", epochs=1, callbacks=[TensorBoard(tmp_path)]).run()
    assert "train/objective" in curves(tmp_path) and "train/elbo" not in curves(tmp_path)


def test_each_phase_of_discover_is_a_run_of_its_own(tmp_path):
    quick = {"epochs": 10, "restarts": 2, "trust": False, "hidden": (), "progress": False}
    discover(make_episodes(32), callbacks=[TensorBoard(tmp_path)], **quick)
    assert {path.name for path in tmp_path.iterdir()} == {"restart-1", "restart-2", "training"}
    assert len(curves(tmp_path / "restart-1")["train/elbo"]) == 2
    assert len(curves(tmp_path / "training")["train/elbo"]) == 8


def test_tensorboard_is_loaded_where_it_is_used():
    code = "import sys, pyro_options.infer as i; i.Callback, i.Trainer; print('tensorboard' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
