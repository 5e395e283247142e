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


@pytest.mark.slow
def test_the_exact_guide_finds_the_right_number_of_options(tmp_path):
    done = run("toy_message.py", "--guide", "exact", "--num-messages", "4", "--epochs", "60", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["success"] and results["used_options"] == results["num_options"] == 4
