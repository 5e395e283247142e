"""Every example runs end to end on a tiny budget."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
TINY = {
    "toy_message.py": ["--epochs", "2", "--num-messages", "2", "--num-episodes", "20", "--check-every", "1"],
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
    "dp_mixture.py": ["--num-clusters", "2", "--num-rows", "60", "--patience", "1"],
    "cued_options.py": ["--epochs", "1", "--num-episodes", "10", "--num-cues", "2"],
    "stick_breaking_autoencoder.py": ["--epochs", "1", "--num-components", "5", "--hidden", "8"],
}


def run(name, *arguments):
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
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


def test_dp_mixture(tmp_path):
    done = run("dp_mixture.py", *TINY["dp_mixture.py"], "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["num_clusters"] == 2 and 1 <= results["used_components_mode"] <= results["num_components"]
    assert results["used_components_interval"][0] <= results["used_components_interval"][1]
    assert (tmp_path / "dp_mixture.png").stat().st_size > 10_000


def test_cued_options(tmp_path):
    done = run("cued_options.py", *TINY["cued_options.py"], "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results) == {"plain η", "η(s)", "guessing"} and results["η(s)"]["held_out_nats_per_segment"] < 0
    assert (tmp_path / "cued_options.png").stat().st_size > 10_000


def test_stick_breaking_autoencoder(tmp_path):
    name = "stick_breaking_autoencoder"
    done = run(f"{name}.py", *TINY[f"{name}.py"], "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert sum(results["mean_weights"]) == pytest.approx(1, abs=1e-3) and results["elbo_held_out"] < 0
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_exact_guide_finds_the_right_number_of_options(tmp_path):
    done = run("toy_message.py", "--guide", "exact", "--num-messages", "4", "--epochs", "60", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["success"] and results["used_options"] == results["num_options"] == 4
