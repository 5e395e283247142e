"""Grids on Ray: the rows of local processes, and a driver that is killed goes on where it was."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.grid_jobs import square
from support.tiny_runs import PATIENCE

from pyro_options.experiments import read_runs, run_grid

SCRIPT = """
import sys
from pathlib import Path
from support.grid_jobs import wait_and_square
from pyro_options.experiments import run_grid

grid = {f"x = {x}": {"x": x, "folder": sys.argv[1]} for x in range(int(sys.argv[2]), 8)}
if __name__ == "__main__":
    run_grid(wait_and_square, grid, Path(sys.argv[1], "runs.json"), 2, progress=False, backend="ray")
"""
TESTS = Path(__file__).parents[1]


def driver(folder, first=0):
    script = folder / "driver.py"
    script.write_text(SCRIPT)
    own = {"PYTHONPATH": str(TESTS), "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    command = [sys.executable, "-W", "error", script, folder, str(first)]
    return subprocess.Popen(command, env=os.environ | own, stderr=subprocess.PIPE, text=True)


def finished(folder):
    return len(read_runs(folder / "runs.json"))


@pytest.mark.slow
def test_a_killed_driver_goes_on_and_rows_equal_local_ones(tmp_path):
    pytest.importorskip("ray")
    with driver(tmp_path) as killed:
        deadline = time.monotonic() + PATIENCE
        while finished(tmp_path) < 2:
            assert time.monotonic() < deadline and killed.poll() is None
            time.sleep(0.05)
        killed.kill()
    assert finished(tmp_path) == 2
    (tmp_path / "go on").touch()
    with driver(tmp_path, first=-1) as again:
        _, errors = again.communicate(timeout=PATIENCE)
    assert "1 of 7 runs failed, the first of them 'x = -1': -1 has no root" in errors
    calls = sorted((tmp_path / "calls").read_text().split())
    assert calls.count("0") == calls.count("1") == 1  # finished runs were not repeated
    found = {row["x"]: row for row in read_runs(tmp_path / "runs.json")}
    local = run_grid(square, {f"x = {x}": {"x": x} for x in range(8)}, tmp_path / "local.json", progress=False)
    assert len(found) == 8 and {row["threads"] for row in found.values()} == {1}
    for row in local:
        same = ("name", "x", "square", "pair", "threads")
        assert {key: row[key] for key in same} == {key: found[row["x"]][key] for key in same}


def test_other_backends_are_refused(tmp_path):
    with pytest.raises(ValueError, match="backend to be one of local, ray but got 'slurm'"):
        run_grid(square, {}, tmp_path / "runs.json", backend="slurm")


def test_a_missing_ray_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pyro-options\[ray\]"):
        run_grid(square, {"x": {"x": 1}}, tmp_path / "runs.json", progress=False, backend="ray")
