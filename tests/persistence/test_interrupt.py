"""Ctrl-C saves the training and says how to resume it."""

import os
import signal
import threading

import pytest
import torch
from support.small_trainings import DATA, finished, make_trainer

from pyro_options.discovery import discover
from pyro_options.errors import InputError, Interrupted
from pyro_options.persistence import Checkpoint, explained_interrupts, postponing_interrupts


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    path = tmp_path / "run.safetensors"
    trainer, handler = make_trainer(checkpoint=path), signal.getsignal(signal.SIGINT)
    take = trainer.step

    def step(batch):
        if trainer.num_steps == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return take(batch)

    trainer.step = step
    with pytest.raises(Interrupted, match=r"6 steps and 1 of 4 epochs.*run.safetensors.*--resume"):
        trainer.run()
    assert signal.getsignal(signal.SIGINT) is handler
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
