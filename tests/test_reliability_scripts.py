"""The scripts behind the bars of reliability, on small budgets."""

import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def load(name, monkeypatch):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


def test_an_example_that_is_interrupted_says_how_to_go_on_and_does(tmp_path):
    example = BENCHMARKS.parent / "examples" / "toy_message.py"
    command = [sys.executable, str(example), "--guide", "exact", "--num-messages", "2", "--num-episodes", "20"]
    command += ["--epochs", "30", "--batch-size", "10", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        seen = b""
        while b"epoch" not in seen:  # the progress bar: training has begun
            seen += process.stderr.read(1)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().decode()
    assert process.returncode == 130 and "--resume" in said and "Traceback" not in said
    resumed = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=200)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads((tmp_path / "results.json").read_text())["epochs"] == 30


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
            (Path(__file__).parent / name.split("::")[0]).exists() for name in one.tests
        )
