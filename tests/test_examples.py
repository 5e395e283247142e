"""Every example runs end to end on a tiny budget."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import tyro
from skill_sets import ScriptedSkills

from pyro_options.rl import SMDPPPO

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
    "switches_ppo.py": ["--seeds", "0", "--max-frames", "1500", "--num-episodes", "40", "--epochs", "2"],
    "atari_ppo.py": [
        *("--seeds", "0", "--arms", "none", "ddo@2", "--game", "Freeway", "--num-episodes", "3"),
        *("--episode-steps", "30", "--epochs", "1", "--checkpoint-every", "1024", "--no-progress"),
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


def test_switches_ppo(tmp_path):
    done = run("switches_ppo.py", *TINY["switches_ppo.py"], "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    runs = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert [one["arm"] for one in runs] == ["none", "options-exact"]
    assert runs[0]["frames"] == runs[0]["steps"] and runs[1]["frames"] > runs[1]["steps"]
    assert (tmp_path / "switches_ppo.png").stat().st_size > 10_000
    assert (tmp_path / "skills.gif").read_bytes()[:6] == b"GIF89a"


@pytest.fixture(scope="module")
def atari_ppo():
    """The example as a module: each process of its own would compile and import for longer than it runs."""
    spec = importlib.util.spec_from_file_location("atari_ppo", EXAMPLES / "atari_ppo.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["atari_ppo"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["atari_ppo"]


def parsed(module, *arguments):
    return tyro.cli(module.Args, args=arguments)


def test_atari_ppo_goes_on_where_it_was_left(atari_ppo, tmp_path, capsys):
    def run(steps):
        return atari_ppo.main(parsed(atari_ppo, *TINY["atari_ppo.py"], "--out", str(tmp_path), "--total-steps", steps))

    whole = run("2048")[1]
    assert [row["steps"] for row in whole["curve"]] == [1024, 2048] and 1 <= whole["num_options"] <= 2
    assert whole["curve"][-1]["frames"] > 4 * 2048  # skills last
    assert "| none | 0 |" in (tmp_path / "atari_ppo.md").read_text() and (tmp_path / "atari_ppo.png").exists()

    assert run("2048")[1] == whole  # read, not repeated
    with pytest.raises(ValueError, match="the settings of"):
        run("3072")
    for arm in ("none", "ddo@2"):
        (tmp_path / f"Freeway_ram_{arm}_seed0" / "result.json").unlink()
    longer = run("3072")[1]["curve"]
    assert longer[:2] == whole["curve"] and [row["steps"] for row in longer] == [1024, 2048, 3072]


def test_atari_ppo_learns_from_pixels_while_skills_read_ram(atari_ppo, tmp_path, capsys):
    pytest.importorskip("cv2")
    args = parsed(atari_ppo, "--preset", "paper", "--game", "Freeway")
    still = ScriptedSkills(lambda x, k: 0, lambda x, k: x[0] < 0, 1, 3, state_dim=1024)
    learner = SMDPPPO("CnnPolicy", atari_ppo.make_envs(args, still), n_steps=4, n_epochs=1, batch_size=4, device="cpu")
    learner.learn(4)
    assert learner.observation_space.shape == (4, 84, 84) and learner.num_frames >= 16


def test_atari_ppo_refuses_an_unknown_arm(atari_ppo):
    with pytest.raises(ValueError, match="magic@3"):
        atari_ppo.Args(arms=("none", "magic@3"))


@pytest.mark.slow
def test_the_exact_guide_finds_the_right_number_of_options(tmp_path):
    done = run("toy_message.py", "--guide", "exact", "--num-messages", "4", "--epochs", "60", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["success"] and results["used_options"] == results["num_options"] == 4
