"""Every example runs end to end on a tiny budget."""

import importlib
import importlib.util
import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import tyro
from PIL import Image
from skill_sets import ScriptedSkills

from pyro_options import Skills
from pyro_options.data import Trajectories, to_minari
from pyro_options.envs import atari_demonstrations, make_atari
from pyro_options.rl import SMDPPPO

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
    "compare.py": [
        *("--tasks", "message-4", "breakout", "--methods", "options-exact", "ddo", "bc", "--num-options", "2"),
        *("--seeds", "0", "--num-episodes", "6", "--held-out", "4", "--epochs", "1", "--processes", "1"),
        "--no-progress",
    ],
    "reproduce.py": ["--preset", "smoke", "--processes", "1", "--no-progress"],
    "switches_ppo.py": ["--seeds", "0", "--max-frames", "1500", "--num-episodes", "40", "--epochs", "2"],
    "atari_ppo.py": [
        *("--seeds", "0", "--arms", "none", "ddo@2", "--games", "Freeway", "--num-episodes", "3"),
        *("--episode-steps", "30", "--epochs", "1", "--checkpoint-every", "1024", "--no-progress"),
    ],
    "dp_mixture.py": ["--num-clusters", "2", "--num-rows", "60", "--patience", "1"],
    "count_mixture.py": ["--num-documents", "40", "--num-words", "20", "--patience", "1"],
    "cued_options.py": ["--epochs", "1", "--num-episodes", "10", "--num-cues", "2"],
    "stick_breaking_autoencoder.py": ["--epochs", "1", "--num-components", "5", "--hidden", "8"],
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
    expected += "options_in_use exact_log_likelihood epochs seconds growth_epochs"
    assert set(expected.split()) <= set(results)
    assert results["guide"] == guide and results["epochs"] == 2
    assert results["num_options"] == 1 + len(results["growth_epochs"])
    assert (tmp_path / "toy_message.png").stat().st_size > 10_000
    assert "<title>2 messages" in (tmp_path / "report.html").read_text()
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
    assert len(raw["runs"]) == 2 and raw["origins"][0]["versions"]["torch"]
    assert "| exact | 2 |" in (tmp_path / "message_sweep.md").read_text()
    assert (tmp_path / "message_sweep.png").exists()


def test_compare(tmp_path):
    done = run("compare.py", *TINY["compare.py"], "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "compare.json").read_text())["runs"]
    assert len(rows) == 2 * 4 and {row["fixed_options"] for row in rows if row["method"] == "ddo"} == {2}
    assert all(row["below_best"] > 0 and 0 < row["accuracy"] <= 1 for row in rows if row["task"] == "message-4")
    assert [row["used_options"] for row in rows if row["method"] == "bc"] == [1, 1]
    text = (tmp_path / "compare.md").read_text()
    assert "| ddo, K = 2 | 1 |" in text and "| bc | 1 |" in text and "scripted expert" in text
    assert (tmp_path / "compare_breakout.png").stat().st_size > 10_000


@pytest.fixture
def studies(monkeypatch):
    """What the comparisons share, as modules."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("reproduce"), importlib.import_module("studies.tasks")


def test_reproduce(studies, tmp_path, capsys):
    """The ablations on messages are alike: one of them stands for all."""
    reproduce, folder = studies[0], tmp_path / "smoke"
    only = ("proof_of_concept", "entropy", "trajectory_length", "atari_entropy", "methods")
    given = (*TINY["reproduce.py"], "--out", str(tmp_path), "--only")
    done = reproduce.main(parsed(reproduce, *given, *only))
    page = (folder / "README.md").read_text()
    assert tuple(done) == only and all((folder / f"{name}.png").stat().st_size > 10_000 for name in only)
    assert all(f"({name}.png)" in page for name in only) and "Figure 2" in page and "Table 2" in page
    (folder / "trajectory_length.json").unlink()
    assert list(reproduce.main(parsed(reproduce, *given, "entropy_per"))) == [
        *("proof_of_concept", "entropy", "entropy_per", "atari_entropy", "methods")
    ]
    shorter = (folder / "README.md").read_text()  # what is done is shown, what is not is not run
    assert "## Length" in page and "## Length" not in shorter
    shared = json.loads((folder / "message_ablations.json").read_text())["runs"]
    assert len({row["name"] for row in shared}) == len(shared) == 4  # the arm that both ablations have is run once


def test_every_experiment_is_declared_for_every_preset(studies):
    reproduce, _ = studies
    for preset in reproduce.PRESETS:
        for name, experiment in reproduce.EXPERIMENTS.items():
            grids = experiment.grids(preset)
            assert grids and all(grids.values()), name
            for grid in grids.values():
                inspect.signature(experiment.job).bind(**next(iter(grid.values())))
    with pytest.raises(ValueError, match=r"experiment to be one of .*proof_of_concept"):
        reproduce.Args(only=("figure-2",))


def test_the_full_proof_of_concept_is_committed(studies):
    """Ten seeds for every size of the vocabulary, so that nothing is left to run."""
    for file, grid in studies[0].EXPERIMENTS["proof_of_concept"].grids("full").items():
        rows = {row["name"]: row for row in json.loads(Path(file).read_text())["runs"]}
        for name, settings in grid.items():
            assert {key: rows[name][key] for key in rows[name]["settings"]} == settings


def test_the_best_possible_likelihood_of_integers_is_a_distribution(studies):
    """Over all sequences of a length: cuts into three segments, and symbols that differ from their neighbours."""
    for T, cuts in ((3, [(1, 2)]), (5, [(a, b) for a in range(1, 4) for b in range(a + 1, 5)])):
        starts = torch.zeros(len(cuts), 6, dtype=torch.bool)
        starts[:, 0] = True
        for row, cut in zip(starts, cuts):
            row[list(cut)] = True
        each = studies[1].integers_log_likelihood(starts, torch.full((len(cuts),), T))
        assert float((each.exp() * 5 * 4 * 4).sum()) == pytest.approx(1)


def test_breakout_is_cut_to_learn_from_but_not_to_judge_by(studies):
    tasks = studies[1]
    size = tasks.Size(3, 2, 60)
    short = tasks.TASKS["breakout-50"].make(0, size, None)
    assert short.train.lengths.tolist() == [50] * 3 and short.held_out.lengths.tolist() == [60] * 2
    other = tasks.TASKS["breakout-50"].make(1, size, None)
    assert (other.held_out.stored == short.held_out.stored).all()
    assert short.train.num_actions == short.held_out.num_actions == 4


def test_switches_ppo(tmp_path):
    done = run("switches_ppo.py", *TINY["switches_ppo.py"], "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    runs = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert [one["arm"] for one in runs] == ["none", "options-exact"]
    assert runs[0]["frames"] == runs[0]["steps"] and runs[1]["frames"] > runs[1]["steps"]
    assert (tmp_path / "switches_ppo.png").stat().st_size > 10_000
    assert (tmp_path / "skills.gif").read_bytes()[:6] == b"GIF89a"


@pytest.fixture
def atari_ppo(monkeypatch):
    """The example as a module: each process of its own would compile and import for longer than it runs."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("atari_ppo")


def parsed(module, *arguments):
    return tyro.cli(module.Args, args=arguments)


def test_atari_ppo_goes_on_where_it_was_left(atari_ppo, tmp_path, capsys):
    def run(steps):
        return atari_ppo.main(parsed(atari_ppo, *TINY["atari_ppo.py"], "--out", str(tmp_path), "--total-steps", steps))

    whole = run("2048")[1]
    assert whole["curve"]["steps"] == [1024, 2048] and 1 <= whole["num_options"] <= 2
    assert whole["curve"]["frames"][-1] > 4 * 2048 and whole["mean_duration"] > 1  # skills last
    assert "| none | 1 | 0 |" in (tmp_path / "atari_ppo.md").read_text() and (tmp_path / "atari_ppo.png").exists()

    assert run("2048")[1] == whole  # read, not repeated
    with pytest.raises(ValueError, match="the settings that"):
        run("3072")
    (tmp_path / "Freeway.json").unlink()
    longer = run("3072")[1]["curve"]
    assert longer["steps"] == [1024, 2048, 3072]
    assert [longer[axis][:2] for axis in whole["curve"]] == list(whole["curve"].values())


def test_atari_ppo_learns_from_pixels_while_skills_read_ram(atari_ppo, tmp_path, capsys):
    pytest.importorskip("cv2")
    setup = atari_ppo.Setup(preset="paper")
    still = ScriptedSkills(lambda x, k: 0, lambda x, k: x[0] < 0, 1, 3, state_dim=1024)
    envs = atari_ppo.make_envs("Freeway", setup, still)
    learner = SMDPPPO("CnnPolicy", envs, n_steps=4, n_epochs=1, batch_size=4, device="cpu").learn(4)
    assert learner.observation_space.shape == (4, 84, 84) and learner.num_frames >= 16


def test_atari_ppo_refuses_what_it_does_not_know(atari_ppo, tmp_path):
    with pytest.raises(ValueError, match="magic@3"):
        atari_ppo.Args(arms=("none", "magic@3"))
    with pytest.raises(ValueError, match="Chess"):
        atari_ppo.Args(games=("Chess",))
    with pytest.raises(ValueError, match="finished runs in"):
        atari_ppo.main(atari_ppo.Args(out=tmp_path, run=False))


def test_learning_curves_are_thinned_and_read_where_games_had_ended(atari_ppo):
    learning = importlib.import_module("studies.learning")
    rows = [{"steps": 10 * i, "frames": 40 * i} | ({"return": float(i)} if i >= 100 else {}) for i in range(1, 301)]
    curve = learning.thinned(rows)
    assert len(curve["steps"]) == learning.POINTS and curve["steps"][-1] == 3000 and curve["return"][0] is None
    assert learning.points(curve, "frames").min() >= 100
    assert learning.return_at(curve, 40 * 99) is None and 190 < learning.return_at(curve, 40 * 200) <= 200
    assert learning.final_return(rows, 3000) == pytest.approx(np.mean(range(251, 301)))
    assert learning.final_return(rows[:99], 990) is None


def test_dp_mixture(tmp_path):
    done = run("dp_mixture.py", *TINY["dp_mixture.py"], "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["num_clusters"] == 2 and 1 <= results["used_components_mode"] <= results["num_components"]
    assert results["used_components_interval"][0] <= results["used_components_interval"][1]
    assert (tmp_path / "dp_mixture.png").stat().st_size > 10_000


def test_count_mixture(tmp_path):
    done = run("count_mixture.py", *TINY["count_mixture.py"], "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert 1 <= results["used_components_mode"] <= results["num_components"] and 2 <= results["kinds"] <= 10
    assert (tmp_path / "count_mixture.png").stat().st_size > 10_000


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


def test_atari_discover_with_the_scripted_expert(tmp_path):
    done = run("atari_discover.py", *TINY["atari_discover.py"], "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["epochs"] == 2 and results["num_options"] == 1 + len(results["growth_epochs"])
    gain = results["exact_log_likelihood"] - results["behaviour_cloning_log_likelihood"]
    assert results["gain_over_behaviour_cloning"] == pytest.approx(gain)
    assert len(results["usage"]) == len(results["termination_rate"]) == results["num_options"]
    assert (tmp_path / "atari_discover.png").stat().st_size > 10_000
    assert (tmp_path / "option_cards.png").stat().st_size > 10_000
    assert (tmp_path / "report.html").read_text().count("data:image/png") >= 20  # held-out episodes, replayed
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


def test_atari_discover_with_a_minari_data_set(tmp_path, monkeypatch):
    """What the expert did, by way of Minari, is replayed in the animation; an id that is not there is named."""
    pytest.importorskip("minari")
    pytest.importorskip("h5py")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    env = make_atari("Breakout")
    to_minari(atari_demonstrations("Breakout", 4, max_steps=30), "breakout/scripted-v0", env)
    env.close()
    tiny = TINY["atari_discover.py"]
    done = run("atari_discover.py", *tiny, "--minari", "breakout/scripted-v0", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["episodes"] == results["held_out_episodes"] == 2 and results["exact_log_likelihood"] < 0
    assert "cannot be replayed" not in done.stdout and (tmp_path / "out" / "options_0.gif").exists()
    done = run("atari_discover.py", *tiny, "--minari", "breakout/absent-v0", "--out", tmp_path / "out")
    assert done.returncode != 0 and "breakout/absent-v0" in done.stderr


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
    tiny = (
        "--num-episodes",
        "5",
        "--epochs",
        "1",
        "--fixed",
        "1",
        "2",
        "--seeds",
        "0",
        "--no-relaxed",
        "--no-progress",
    )
    done = run("../benchmarks/breakout.py", *tiny, "--cache", tmp_path, "--out", out)
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
    tiny = (
        "--seeds",
        "0",
        "--num-episodes",
        "60",
        "--held-out",
        "20",
        "--epochs",
        "2",
        "--beginning",
        "1",
        "--out",
        out,
    )
    done = run("../benchmarks/integers.py", *tiny, "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("0 of 1 seeds") == 3
    rows = json.loads(out.read_text())["runs"]
    assert [row["method"] for row in rows] == ["compile", "options-exact", "options-exact-np"]
    assert rows[0]["decoded"].keys() <= rows[0].keys()


def test_the_breakout_benchmark_counts_what_was_seen_in_training(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from breakout import overlap

    states = np.arange(8, dtype=np.uint8).reshape(2, 4, 1)
    data = Trajectories(states, np.zeros((2, 4), np.int64), packed=True)
    held = Trajectories(np.array([states[0], states[1] + 2]), np.zeros((2, 4), np.int64), packed=True)
    assert overlap(data, held) == {"states": 0.75, "episodes": 0.5}
