"""Ctrl-C and SIGTERM save the training, and the message says how to resume it."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from support.small_trainings import DATA, finished, make_trainer

from pyro_options.discovery import discover
from pyro_options.errors import InputError, Interrupted
from pyro_options.persistence import Checkpoint, explained_interrupts, postponing_interrupts

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path, number):
    path = tmp_path / "run.safetensors"
    trainer, handler = make_trainer(checkpoint=path), signal.getsignal(number)
    take = trainer.step

    def step(batch):
        if trainer.num_steps == 5:
            os.kill(os.getpid(), number)
        return take(batch)

    trainer.step = step
    with pytest.raises(Interrupted, match=r"6 steps and 1 of 4 epochs.*run.safetensors.*--resume") as caught:
        trainer.run()
    assert signal.getsignal(number) is handler and caught.value.signal == number
    resumed = make_trainer(checkpoint=Checkpoint(path, resume=True))
    assert resumed.num_steps == 6
    assert finished(resumed) == finished(make_trainer())


def test_a_second_ctrl_c_stops_at_once_and_other_threads_are_not_affected():
    with pytest.raises(KeyboardInterrupt), postponing_interrupts() as pause:
        os.kill(os.getpid(), signal.SIGINT)
        assert pause.requested
        os.kill(os.getpid(), signal.SIGINT)
    seen = []

    def work():
        with postponing_interrupts() as pause:
            seen.append(pause.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def test_a_command_prints_the_message_of_the_interruption(capsys):
    with pytest.raises(SystemExit) as caught, explained_interrupts():
        raise Interrupted("All is saved.")
    assert caught.value.code == 130 and "All is saved." in capsys.readouterr().err
    with explained_interrupts():
        pass


def test_a_command_ended_by_sigterm_exits_as_one(tmp_path):
    code = """
import os, signal
from support.small_trainings import make_trainer
from pyro_options.persistence import explained_interrupts
trainer = make_trainer(checkpoint="run.safetensors")
take = trainer.step
trainer.step = lambda batch: (os.kill(os.getpid(), signal.SIGTERM), take(batch))[1]
with explained_interrupts():
    trainer.run()
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 128 + signal.SIGTERM and "Everything is in run.safetensors" in done.stderr
    assert make_trainer(checkpoint=Checkpoint(tmp_path / "run.safetensors", resume=True)).num_steps == 1


def test_sigterm_twice_does_not_break_off_the_saving():
    with postponing_interrupts() as pause:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert pause.signal == signal.SIGTERM
    with pytest.raises(KeyboardInterrupt), postponing_interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)


def test_an_interruption_during_the_last_check_is_reported_too(tmp_path):
    trainer = make_trainer(checkpoint=tmp_path / "run", epochs=1)
    settle = trainer.settle

    def interrupted():
        os.kill(os.getpid(), signal.SIGINT)
        settle()

    trainer.settle = interrupted
    with pytest.raises(Interrupted, match="1 of 1 epochs"):
        trainer.run()
    assert make_trainer(checkpoint=Checkpoint(tmp_path / "run", resume=True), epochs=1).settled


def test_discover_resumes(tmp_path):
    path = tmp_path / "run.safetensors"
    quick = {"epochs": 3, "batch_size": 7, "check_every": 3, "progress": False, "device": "cpu"}
    whole = discover(DATA, **quick)
    first = discover(DATA, checkpoint=path, **quick)
    again = discover(DATA, checkpoint=path, resume=True, **quick)  # finished: only read
    for skills in (first, again):
        assert torch.equal(skills.policy.heads.weight, whole.policy.heads.weight)
        assert torch.equal(skills.log_weights, whole.log_weights)
        made, expected = skills.metadata, whole.metadata
        assert made["growth"] == expected["growth"] and made["log_likelihood"] == expected["log_likelihood"]
        assert made["history"] | {"seconds": 0} == expected["history"] | {"seconds": 0}
    with pytest.raises(InputError, match="about method"):
        discover(DATA, checkpoint=path, resume=True, termination_cost=1.0, **quick)
    with pytest.raises(InputError, match="a checkpoint to resume"):
        discover(DATA, resume=True, **quick)


def test_discover_resumed_for_more_epochs_keeps_its_check_interval(tmp_path):
    path = tmp_path / "run.safetensors"
    quick = {"batch_size": 7, "progress": False, "device": "cpu", "checkpoint": path, "resume": True}
    first, more = (discover(DATA, epochs=epochs, **quick).metadata for epochs in (6, 12))
    assert more["method"] == first["method"] and len(more["history"]["objective"]) == 12
    assert more["history"]["objective"][:6] == first["history"]["objective"]
