"""Every example runs end to end on a tiny budget."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pyro_options import Skills
from pyro_options.data import Trajectories

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
TINY = {
    "toy_message.py": ["--epochs", "2", "--num-messages", "2", "--num-episodes", "20", "--check-every", "1"],
    "atari_discover.py": [
        *("--epochs", "2", "--num-episodes", "4", "--max-steps", "40", "--held-out", "0.5", "--check-every", "1"),
        *("--gif-steps", "10", "--no-progress", "--device", "cpu"),
    ],
    "option_length.py": [
        *("--epochs", "1", "--num-episodes", "4", "--costs", "0", "3", "--num-options", "2", "--no-progress"),
    ],
    "message_sweep.py": [
        "--epochs",
        "1",
        "--num-messages",
        "2",
        "3",
        "--seeds",
        "0",
        "--guides",
        "exact",
        "--processes",
        "1",
    ],
}


def run(name, *arguments):
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_every_example_has_a_tiny_budget_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(TINY)


@pytest.mark.parametrize("guide", ["relaxed", "exact", "score-function", "straight-through"])
def test_toy_message(guide, tmp_path):
    done = run("toy_message.py", *TINY["toy_message.py"], "--guide", guide, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    expected = "num_messages guide seed num_options used_options success min_message_probability elbo "
    expected += "exact_log_likelihood epochs seconds growth_epochs"
    assert set(expected.split()) <= set(results)
    assert results["guide"] == guide and results["epochs"] == 2
    assert results["num_options"] == 1 + len(results["growth_epochs"])
    assert (tmp_path / "toy_message.png").stat().st_size > 10_000
    assert json.loads((tmp_path / "config.json").read_text())["guide"] == guide
    assert "success" in done.stdout


def test_toy_message_with_a_fixed_number_of_options(tmp_path):
    done = run("toy_message.py", *TINY["toy_message.py"], "--num-options", "3", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "results.json").read_text())["num_options"] == 3


def test_toy_message_refuses_an_unknown_guide():
    done = run("toy_message.py", "--guide", "mcmc")
    assert done.returncode != 0 and "mcmc" in done.stdout + done.stderr


def test_message_sweep(tmp_path):
    done = run("message_sweep.py", *TINY["message_sweep.py"], "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    raw = json.loads((tmp_path / "message_sweep.json").read_text())
    assert len(raw["runs"]) == 2 and raw["versions"]["torch"]
    assert "| exact | 2 |" in (tmp_path / "message_sweep.md").read_text()
    assert (tmp_path / "message_sweep.png").exists()


@pytest.mark.slow
def test_the_exact_guide_finds_the_right_number_of_options(tmp_path):
    done = run("toy_message.py", "--guide", "exact", "--num-messages", "4", "--epochs", "60", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["success"] and results["used_options"] == results["num_options"] == 4


def test_atari_discover_with_the_scripted_expert(tmp_path):
    done = run("atari_discover.py", *TINY["atari_discover.py"], "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["epochs"] == 2 and results["num_options"] == 1 + len(results["growth_epochs"])
    gain = results["exact_log_likelihood"] - results["behaviour_cloning_log_likelihood"]
    assert results["gain_over_behaviour_cloning"] == pytest.approx(gain)
    assert len(results["usage"]) == len(results["termination_rate"]) == results["num_options"]
    assert (tmp_path / "atari_discover.png").stat().st_size > 10_000
    with Image.open(tmp_path / "options_0.gif") as animation:
        assert animation.n_frames == 10
    assert Skills.load(tmp_path / "skills.safetensors").action_names == ("NOOP", "FIRE", "RIGHT", "LEFT")
    assert json.loads((tmp_path / "config.json").read_text())["guide"] == "exact"


def test_atari_discover_with_a_file_and_the_relaxed_guide(tmp_path):
    """Fixed K, and an episode that is no game of Breakout: the animation falls back to the expert and says so."""
    ram, actions = np.random.default_rng(0).integers(0, 256, (4, 12, 128), np.uint8), np.arange(48).reshape(4, 12) % 4
    np.savez(tmp_path / "data.npz", ram=ram, action=actions, length=np.full(4, 12))
    extra = ("--data", tmp_path / "data.npz", "--guide", "relaxed", "--num-options", "2", "--out", tmp_path / "out")
    done = run("atari_discover.py", *TINY["atari_discover.py"], *extra)
    assert done.returncode == 0, done.stderr
    assert "cannot be replayed" in done.stdout
    assert json.loads((tmp_path / "out" / "results.json").read_text())["num_options"] == 2


def test_atari_discover_reads_files_of_either_kind(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from atari_discover import load_file

    data = Trajectories(np.zeros((2, 3, 128), np.uint8), np.zeros((2, 3), np.int64), packed=True)
    data.save(tmp_path / "own.npz")
    assert load_file(tmp_path / "own.npz").packed
    np.savez(tmp_path / "other.npz", pixels=np.zeros(3))
    with pytest.raises(ValueError, match="'ram'"):
        load_file(tmp_path / "other.npz")


def test_atari_discover_takes_one_source(tmp_path):
    done = run("atari_discover.py", "--data", "a.npz", "--minari", "b", "--out", tmp_path)
    assert done.returncode != 0 and "one of --data" in done.stderr


def test_option_length(tmp_path):
    done = run("option_length.py", *TINY["option_length.py"], "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    runs = json.loads((tmp_path / "option_length.json").read_text())["runs"]
    assert [row["termination_cost"] for row in runs] == [0.0, 3.0]
    assert (tmp_path / "option_length.png").stat().st_size > 10_000


def test_the_comparisons_of_discovery(tmp_path):
    out = tmp_path / "recovery.json"
    done = run("../benchmarks/recovery.py", "--seeds", "0", "--kinds", "continuous", "--epochs", "1", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "0 of 1 runs" in done.stdout and not json.loads(out.read_text())["runs"][0]["passed"]
    out = tmp_path / "breakout.json"
    tiny = ("--num-episodes", "5", "--epochs", "1", "--fixed", "1", "2", "--no-relaxed", "--no-progress", "--out", out)
    done = run("../benchmarks/breakout.py", *tiny)
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
    assert set(record["runs"]) == {"growth, exact guide", "K = 1", "K = 2"} and len(record["verdict"]) == 2
