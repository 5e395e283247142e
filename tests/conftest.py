import os
import signal

import pyro
import pytest
import torch
from support.tiny_runs import run_in_process

if "PYTEST_XDIST_WORKER" in os.environ:  # each worker has a core to itself, and so have the examples that it runs
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs in its background deaf to Ctrl-C


def pytest_collection_modifyitems(items):
    """Tests that need a CUDA device are skipped without one."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("cuda"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(autouse=True)
def fresh_start():
    """The same random numbers and an empty param store for every test."""
    pyro.set_rng_seed(0)
    pyro.clear_param_store()


@pytest.fixture
def run_script(monkeypatch, capsys):
    """Runs an example or a script of benchmarks/ as its command does, in this process; returns what it printed."""

    def run(script, *arguments):
        capsys.readouterr()
        run_in_process(monkeypatch, script, *arguments)
        return capsys.readouterr().out

    return run
