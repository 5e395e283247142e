"""The scripts of benchmarks/ run on small budgets."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.tiny_runs import ROOT, run

from pyro_options.data import Trajectories

BENCHMARKS = ROOT / "benchmarks"


def load(name, monkeypatch):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_killed_training_ends_with_the_same_bytes(tmp_path):
    out = tmp_path / "kills.json"
    command = [sys.executable, str(BENCHMARKS / "kills.py"), "--runs", "2", "--kills", "2", "--epochs", "6"]
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(out.read_text())
    assert record["identical"] == record["runs"] == 2 and sum(record["kills"].values()) >= 2 and not record["litter"]


def test_a_soak_leaves_nothing_stale(tmp_path, monkeypatch, capsys):
    soak = load("soak", monkeypatch)
    record = soak.main(soak.Args(steps=200, moves=20, out=tmp_path / "soak.json"))
    assert record["moves"] == 20 and record["stale_optimizer_entries"] == 0 and record["finite"]
    assert max(record["num_options"]) == 8 and min(record["num_options"]) < 8


def test_mutations_change_lines_that_exist(monkeypatch):
    mutations = load("mutations", monkeypatch)
    assert len(mutations.MUTATIONS) >= 10
    for one in mutations.MUTATIONS:
        assert (mutations.ROOT / one.file).read_text().count(one.line) == 1, one.what
        assert one.line != one.mutated and all(
            (Path(__file__).parents[1] / name.split("::")[0]).exists() for name in one.tests
        )


def test_the_comparisons_of_discovery(tmp_path):
    out = tmp_path / "recovery.json"
    done = run("../benchmarks/recovery.py", "--seeds", "0", "--kinds", "continuous", "--epochs", "1", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "0 of 1 runs" in done.stdout and not json.loads(out.read_text())["runs"][0]["passed"]
    out = tmp_path / "breakout.json"
    tiny = ("--num-episodes", "5", "--epochs", "1", "--fixed", "1", "2", "--seeds", "0", "--no-relaxed")
    done = run("../benchmarks/breakout.py", *tiny, "--no-progress", "--cache", tmp_path, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "growth - K = 1: " in done.stdout and "growth - K = 2: " in done.stdout
    rows = json.loads(out.read_text())["runs"]
    assert [row["row"] for row in rows] == ["growth, exact guide", "K = 1", "K = 2"]
    assert set(rows[1]["held_out_seen_in_training"]) == {"states", "episodes"}


def test_the_measurements_of_the_baselines(tmp_path):
    out = tmp_path / "baselines.json"
    tiny = ("--seeds", "0", "--num-episodes", "30", "--held-out", "10", "--epochs", "1", "--out", out)
    for _ in range(2):  # what is there is not run again
        done = run("../benchmarks/baselines.py", *tiny)
        assert done.returncode == 0, done.stderr
        assert "ddo - options-exact, seed 0:" in done.stdout and "of 1 seeds" in done.stdout
    assert [row["arm"] for row in json.loads(out.read_text())["runs"]] == ["ddo", "options-exact", "compile-np"]
    out = tmp_path / "integers.json"
    tiny = ("--seeds", "0", "--num-episodes", "60", "--held-out", "20", "--epochs", "2", "--beginning", "1")
    done = run("../benchmarks/integers.py", *tiny, "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("0 of 1 seeds") == 3
    rows = json.loads(out.read_text())["runs"]
    assert [row["method"] for row in rows] == ["compile", "options-exact", "options-exact-np"]
    assert rows[0]["decoded"].keys() <= rows[0].keys()


def test_games_of_skills_alone_and_together(tmp_path):
    out = tmp_path / "imitation.json"
    tiny = ("--games", "Freeway", "--arms", "bc", "options-exact@2", "--seeds", "0", "--num-episodes", "6")
    tiny += ("--epochs", "1", "--num-games", "2", "--max-steps", "100", "--cache", tmp_path)
    done = run("../benchmarks/imitation.py", *tiny, "--out", out)
    assert done.returncode == 0, done.stderr
    clone, options = json.loads(out.read_text())["runs"]
    assert clone["alone"] == [clone["together"]] and len(options["alone"]) == options["num_options"]
    assert clone["expert"] >= 1 and "together" in done.stdout  # who crosses the road within 400 frames


def test_the_breakout_benchmark_counts_what_was_seen_in_training(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from breakout import overlap

    states = np.arange(8, dtype=np.uint8).reshape(2, 4, 1)
    data = Trajectories(states, np.zeros((2, 4), np.int64), packed=True)
    held = Trajectories(np.array([states[0], states[1] + 2]), np.zeros((2, 4), np.int64), packed=True)
    assert overlap(data, held) == {"states": 0.75, "episodes": 0.5}
