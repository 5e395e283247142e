"""Data-parallel training: processes stay equal to the bit, decide like one process, end together and resume."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from support import parallel_runs
from support.parallel_runs import SCENARIOS
from support.tiny_runs import PATIENCE

from pyro_options.growth import Workers

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
ALIKE = ["evidence", "trial", "skipping"]  # one process draws the same numbers
ALL = [*ALIKE, "paper", "whole"]


def torchrun(folder, *scenarios, stop=None):
    """Runs scenarios in two processes; their output, and whether they succeeded."""
    own = {"OMP_NUM_THREADS": "1"} | ({} if stop is None else {"STOP": "{}:{}".format(*stop)})
    command = [*TORCHRUN, parallel_runs.__file__, folder, *scenarios]
    done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, timeout=PATIENCE)
    return done.stdout + done.stderr, done.returncode == 0


def ranks(folder, name):
    return [torch.load(folder / f"{name}.2.{rank}") for rank in range(2)]


def assert_same_bits(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        if name == "parameters":
            assert all(map(torch.equal, value, second[name])) and len(value) == len(second[name])
        elif isinstance(value, torch.Tensor):
            assert torch.equal(value, second[name])
        else:
            assert value == second[name] or repr(value) == repr(second[name])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parallel")
    output, fine = torchrun(folder, *ALL)
    assert fine, output
    return folder


@pytest.mark.parametrize("name", ALL)
def test_processes_end_with_the_same_bits(name, folder):
    first, second = ranks(folder, name)
    assert_same_bits(first, second)


@pytest.mark.parametrize("name", ALIKE)
def test_processes_decide_like_one(name, folder):
    alone, (found, _) = SCENARIOS[name](Workers(), folder), ranks(folder, name)
    assert found["moves"] == alone["moves"] and found["skipped"] == alone["skipped"]
    assert torch.equal(found["random"], alone["random"])
    torch.testing.assert_close(found["objective"], alone["objective"], rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(found["parameters"], alone["parameters"]):
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2)


def test_options_are_born_pruned_and_merged(folder):
    accepted = {
        kind
        for name in ("evidence", "trial")
        for event in ranks(folder, name)[0]["moves"]
        for kind, _, verdict in event
        if verdict
    }
    assert accepted == {"birth", "prune", "merge"}
    assert ranks(folder, "skipping")[0]["skipped"]


@pytest.mark.slow
def test_a_process_that_dies_ends_the_other_and_any_number_resume(tmp_path, folder):
    torchrun_folder, alone_folder = tmp_path / "two", tmp_path / "one"
    for path in (torchrun_folder, alone_folder):
        path.mkdir()
    output, fine = torchrun(torchrun_folder, "saved", stop=(signal.SIGKILL.value, 25))
    ended = time.time()
    assert not fine and not list(torchrun_folder.glob("saved.*"))
    assert ended - float((torchrun_folder / "stopped").read_text()) < 10, output
    (alone_folder / "training.safetensors").write_bytes((torchrun_folder / "training.safetensors").read_bytes())

    output, fine = torchrun(torchrun_folder, "saved", stop=(signal.SIGINT.value, 31))
    assert not fine and "Stopped: 32 steps" in output and not list(torchrun_folder.glob("saved.*"))
    output, fine = torchrun(torchrun_folder, "saved")
    assert fine, output
    uninterrupted = ranks(folder, "evidence")[0]
    for found in ranks(torchrun_folder, "saved"):
        assert_same_bits(found, uninterrupted)

    alone = SCENARIOS["saved"](Workers(), alone_folder)
    assert alone["moves"] == uninterrupted["moves"]
    for ours, theirs in zip(alone["parameters"], uninterrupted["parameters"]):
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-2)


def test_one_process_is_alone(monkeypatch):
    from pyro_options.infer import join_workers

    assert join_workers().size == 1
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert join_workers().size == 1 and join_workers().writes
