"""Grids of jobs: results are saved as they finish, and runs can be stopped and resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from support.grid_jobs import interrupt, rename, square
from support.tiny_runs import PATIENCE

from pyro_options.experiments import read_runs, run_grid


def grid(*numbers, **more):
    return {f"x = {x}": {"x": x} | more for x in numbers}


def test_finished_runs_are_kept_and_not_repeated(tmp_path):
    marks, path = str(tmp_path / "marks"), tmp_path / "deep" / "runs.json"
    rows = run_grid(square, grid(2, 3, marks=marks), path, progress=False)
    assert [(row["name"], row["x"], row["square"]) for row in rows] == [("x = 2", 2, 4), ("x = 3", 3, 9)]
    again = run_grid(square, grid(4, 3, marks=marks), path, progress=False)
    assert [row["square"] for row in again] == [16, 9] and again[1] == rows[1]
    assert Path(marks).read_text().split() == ["2", "3", "4"]
    assert {row["square"] for row in read_runs(path)} == {4, 9, 16}
    assert not list(path.parent.glob("*.tmp"))


def test_processes_have_one_thread_each_and_give_the_same(tmp_path):
    before = torch.get_num_threads()
    alone = run_grid(square, grid(1, 2, 3), tmp_path / "alone.json", progress=False)
    shared = run_grid(square, grid(1, 2, 3), tmp_path / "shared.json", processes=2, progress=False)
    assert torch.get_num_threads() == before
    assert {row["threads"] for row in alone + shared} == {1}
    assert [row["square"] for row in alone] == [row["square"] for row in shared]
    assert {row["process"] for row in alone} == {os.getpid()} and os.getpid() not in {row["process"] for row in shared}


def test_a_run_with_other_settings_than_the_saved_one_is_refused(tmp_path):
    path = tmp_path / "runs.json"
    run_grid(square, grid(2), path, progress=False)
    text = path.read_text()
    with pytest.raises(ValueError, match=r"'x = 2' has in .*'x': 2.* but got \{'x': 3\}"):
        run_grid(square, {"new": {"x": 1}, "x = 2": {"x": 3}}, path, progress=False)
    with pytest.raises(ValueError, match="'marks': None"):
        run_grid(square, grid(2, marks=str(tmp_path / "marks")), path, progress=False)
    assert path.read_text() == text
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(ValueError, match="a file of runs"):
        run_grid(square, grid(2), tmp_path / "other.json", progress=False)


def test_a_failure_comes_at_the_end_and_is_tried_again(tmp_path, caplog):
    path = tmp_path / "runs.json"
    with pytest.raises(RuntimeError, match=r"1 of 3 runs failed, the first of them 'x = -1': -1 has no root"):
        run_grid(square, grid(1, -1, 2), path, processes=2, progress=False)
    assert "x = -1 failed" in caplog.text
    assert sorted(row["square"] for row in read_runs(path)) == [1, 4]
    with pytest.raises(RuntimeError, match="1 of 1 runs failed"):
        run_grid(square, grid(1, -1, 2), path, progress=False)


def test_a_result_may_not_have_the_name_of_a_setting(tmp_path):
    with pytest.raises(RuntimeError, match=r"name of another setting but got \{'x': 3\}"):
        run_grid(rename, grid(2), tmp_path / "runs.json", progress=False)


def test_commands_and_versions_are_saved_without_folders(tmp_path, monkeypatch):
    path = tmp_path / "runs.json"
    monkeypatch.chdir(tmp_path)
    for seed in ("0", "1", "0"):
        monkeypatch.setattr(sys, "argv", [str(tmp_path / "examples/study.py"), "--data", "/home/me/d.npz", seed])
        run_grid(square, grid(int(seed)), path, progress=False)
    record = json.loads(path.read_text())
    assert [origin["command"] for origin in record["origins"]] == [
        "python examples/study.py --data d.npz 0",
        "python examples/study.py --data d.npz 1",
    ]
    assert [run["origin"] for run in record["runs"]] == [0, 1]
    assert record["origins"][0]["versions"]["torch"] == torch.__version__
    assert all(run["processor_seconds"] >= 0 for run in record["runs"])


def test_an_interrupt_keeps_what_is_done(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_grid(interrupt, grid(0, 1, 2, 3), tmp_path / "runs.json", progress=False)
    assert [row["x"] for row in read_runs(tmp_path / "runs.json")] == [0, 1]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks Linux who is still there")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_its_parent(stop, tmp_path):
    path, script = tmp_path / "runs.json", tmp_path / "script.py"
    script.write_text(
        "import sys; from pathlib import Path; from support.grid_jobs import sleep_for_an_hour\n"
        "from pyro_options.experiments.grid import run_grid\n"
        "grid = {str(x): {'x': x, 'folder': sys.argv[1]} for x in range(3)}\n"
        "if __name__ == '__main__': run_grid(sleep_for_an_hour, grid, Path(sys.argv[1], 'runs.json'), 2, False)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen([sys.executable, script, tmp_path], env=environment, stderr=subprocess.PIPE) as parent:
        wait_until(lambda: path.exists() and len(list(tmp_path.glob("* has started"))) == 2)
        assert [row["x"] for row in read_runs(path)] == [0]
        workers = [int(x) for x in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]
        assert len(workers) >= 2
        parent.send_signal(stop)
        parent.communicate(timeout=PATIENCE)
    assert parent.returncode != 0
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def wait_until(happened):
    """Looks again and again; gives up only after a time that a busy machine does not need either."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)
