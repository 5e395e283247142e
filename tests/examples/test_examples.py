"""Every example runs end to end on a tiny budget."""

import ast
import importlib
import inspect
import json
import math
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.tiny_runs import EXAMPLES, TINY, load_script, parsed, run_command

from pyro_options.envs import atari_demonstrations
from pyro_options.options import CategoricalPolicy, Termination
from pyro_options.skills import Skills


def test_every_example_has_a_tiny_budget_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(TINY)


TOY_MESSAGE = EXAMPLES / "toy_message.py"


@pytest.mark.parametrize("guide", ["paper", "relaxed", "exact", "score-function", "straight-through"])
def test_toy_message(guide, run_script, tmp_path):
    printed = run_script(TOY_MESSAGE, *TINY["toy_message.py"], "--guide", guide, "--out", tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    expected = "num_messages guide seed num_options used_options success min_message_probability objective "
    expected += "options_in_use exact_log_likelihood epochs seconds growth_epochs"
    assert set(expected.split()) <= set(results)
    assert results["guide"] == guide and results["epochs"] == 6
    assert results["num_options"] == 1 + len(results["growth_epochs"])
    assert (tmp_path / "toy_message.png").stat().st_size > 10_000
    assert "<title>2 messages" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "config.json").read_text())["guide"] == guide
    assert "success" in printed
    assert ("by hand: " in printed) == (guide in ("relaxed", "exact", "paper"))  # spelled out for these


def test_toy_message_with_the_settings_of_the_paper(run_script, tmp_path, monkeypatch):
    printed = run_script(TOY_MESSAGE, *TINY["toy_message.py"], "--preset", "paper", "--out", tmp_path)
    assert "by hand: " not in printed and json.loads((tmp_path / "results.json").read_text())["epochs"] == 6
    module = load_script(monkeypatch, TOY_MESSAGE)
    settings = parsed(module, "--preset", "paper", "--num-options", "4").message_run().settings()
    assert (settings["preset"], settings["num_options"], settings["epochs"]) == ("paper", 4, None)
    assert "train" not in settings and parsed(module).message_run().training().epochs == 100


def test_toy_message_with_a_fixed_number_of_options_as_a_command(tmp_path):
    done = run_command(TOY_MESSAGE, *TINY["toy_message.py"], "--num-options", "3", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "results.json").read_text())["num_options"] == 3 and "success" in done.stdout


def test_toy_message_refuses_an_unknown_guide(run_script, capsys):
    with pytest.raises(SystemExit) as refused:
        run_script(TOY_MESSAGE, "--guide", "mcmc")
    assert refused.value.code not in (0, None) and "mcmc" in "".join(capsys.readouterr())


def test_an_interrupted_example_can_be_resumed(run_script, tmp_path):
    """However late the interruption comes: the training is far too long to end before it."""
    arguments = ["--guide", "exact", "--num-messages", "2", "--num-options", "2", "--out", str(tmp_path), "--epochs"]
    command = [sys.executable, str(TOY_MESSAGE), *arguments, "1000000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        seen = b""
        while b"epoch" not in seen:  # the progress bar: training has begun
            more = process.stderr.read(1)
            assert more, seen.decode()  # it has ended instead
            seen += more
        process.send_signal(signal.SIGINT)
        said = process.stderr.read().decode()
    assert process.returncode == 130 and "--resume" in said and "Traceback" not in said
    done = int(re.search(r"(\d+) of 1000000 epochs", said).group(1))
    run_script(TOY_MESSAGE, *arguments, done + 2, "--resume")
    assert json.loads((tmp_path / "results.json").read_text())["epochs"] == done + 2


def test_pixel_skills(run_script, tmp_path):
    printed = run_script(EXAMPLES / "pixel_skills.py", *TINY["pixel_skills.py"], "--out", tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    assert 0 <= results["accuracy"] <= 1 <= results["used_options"] and "accuracy" in printed
    assert (tmp_path / "pixel_skills.png").stat().st_size > 10_000
    assert Skills.load(tmp_path / "skills.safetensors").state_shape == (12, 12)


def test_message_sweep(run_script, tmp_path):
    run_script(EXAMPLES / "message_sweep.py", *TINY["message_sweep.py"], "--out", tmp_path)
    raw = json.loads((tmp_path / "message_sweep.json").read_text())
    assert len(raw["runs"]) == 2 and raw["origins"][0]["versions"]["torch"]
    assert "| exact | 2 |" in (tmp_path / "message_sweep.md").read_text()
    assert (tmp_path / "message_sweep.png").exists()


def test_compare(run_script, tmp_path):
    run_script(EXAMPLES / "compare.py", *TINY["compare.py"], "--out", tmp_path)
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
    return load_script(monkeypatch, EXAMPLES / "reproduce.py"), importlib.import_module("studies.tasks")


def test_reproduce(studies, tmp_path, capsys):
    """An experiment of each kind: growing vocabularies, an ablation on messages and one on Breakout."""
    reproduce, folder = studies[0], tmp_path / "smoke"
    only = ("proof_of_concept", "entropy", "atari_entropy")
    given = (*TINY["reproduce.py"], "--out", str(tmp_path), "--only")
    done = reproduce.main(parsed(reproduce, *given, *only))
    page = (folder / "README.md").read_text()
    assert tuple(done) == only and all((folder / f"{name}.png").stat().st_size > 10_000 for name in only)
    assert all(f"({name}.png)" in page for name in only) and "Figure 2" in page
    (folder / "atari_entropy.json").unlink()
    assert list(reproduce.main(parsed(reproduce, *given, "entropy_per"))) == [
        *("proof_of_concept", "entropy", "entropy_per")
    ]
    shorter = (folder / "README.md").read_text()  # what is done is shown, what is not is not run
    assert "(atari_entropy.png)" in page and "(atari_entropy.png)" not in shorter
    shared = json.loads((folder / "message_ablations.json").read_text())["runs"]
    assert len({row["name"] for row in shared}) == len(shared) == 4  # the arm that both ablations have is run once


@pytest.mark.slow
def test_reproduce_runs_every_experiment(studies, tmp_path, capsys):
    reproduce, folder = studies[0], tmp_path / "smoke"
    done = reproduce.main(parsed(reproduce, *TINY["reproduce.py"], "--out", str(tmp_path)))
    page = (folder / "README.md").read_text()
    assert list(done) == list(reproduce.EXPERIMENTS) and "Figure 2" in page and "Table 2" in page
    for name in done:
        assert (folder / f"{name}.png").stat().st_size > 10_000 and f"({name}.png)" in page


def test_every_experiment_is_declared_for_every_preset(studies):
    reproduce, _ = studies
    papers = [run for e in reproduce.EXPERIMENTS.values() for g in e.grids("paper").values() for run in g.values()]
    assert {"variant": "paper", "guide": "paper", "num_messages": 12, "seed": 9, "epochs": 500} in papers
    options = [run["config"] for run in papers if run.get("method") == "options-paper"]
    assert options and all(config == {"preset": "paper"} for config in options)
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


def test_the_best_possible_likelihood_of_integers_sums_to_one(studies):
    """Over all sequences of a length: cuts into three segments, and symbols that differ from their neighbours."""
    for T, cuts in ((3, [(1, 2)]), (5, [(a, b) for a in range(1, 4) for b in range(a + 1, 5)])):
        starts = torch.zeros(len(cuts), 6, dtype=torch.bool)
        starts[:, 0] = True
        for row, cut in zip(starts, cuts):
            row[list(cut)] = True
        each = studies[1].integers_log_likelihood(starts, torch.full((len(cuts),), T))
        assert float((each.exp() * 5 * 4 * 4).sum()) == pytest.approx(1)


def test_breakout_episodes_are_cut_for_training_but_not_for_evaluation(studies):
    tasks = studies[1]
    size = tasks.Size(3, 2, 60)
    short = tasks.TASKS["breakout-50"].make(0, size, None)
    assert short.train.lengths.tolist() == [50] * 3 and short.held_out.lengths.tolist() == [60] * 2
    other = tasks.TASKS["breakout-50"].make(1, size, None)
    assert (other.held_out.stored == short.held_out.stored).all()
    assert short.train.num_actions == short.held_out.num_actions == 4


def test_switches_ppo(run_script, tmp_path):
    run_script(EXAMPLES / "switches_ppo.py", *TINY["switches_ppo.py"], "--out", tmp_path)
    runs = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert [one["arm"] for one in runs] == ["none", "options-exact"]
    assert runs[0]["frames"] == runs[0]["steps"] and runs[1]["frames"] > runs[1]["steps"]
    assert (tmp_path / "switches_ppo.png").stat().st_size > 10_000
    assert (tmp_path / "skills.gif").read_bytes()[:6] == b"GIF89a"


def test_dp_mixture(run_script, tmp_path):
    run_script(EXAMPLES / "dp_mixture.py", *TINY["dp_mixture.py"], "--out", tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["num_clusters"] == 2 and 1 <= results["used_components_mode"] <= results["num_components"]
    assert results["used_components_interval"][0] <= results["used_components_interval"][1]
    assert (tmp_path / "dp_mixture.png").stat().st_size > 10_000


def test_count_mixture(run_script, tmp_path):
    run_script(EXAMPLES / "count_mixture.py", *TINY["count_mixture.py"], "--out", tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    assert 1 <= results["used_components_mode"] <= results["num_components"] and 2 <= results["kinds"] <= 10
    assert (tmp_path / "count_mixture.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["infinite_hmm", "hdp_topics", "regressions"])
def test_growing_models(name, run_script, tmp_path):
    run_script(EXAMPLES / f"{name}.py", *TINY[f"{name}.py"], "--out", tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    del results["provenance"]
    assert results["num_components"] >= 1 and all(math.isfinite(value) for value in results.values())
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_sticky_options(run_script, tmp_path):
    run_script(EXAMPLES / "sticky_options.py", *TINY["sticky_options.py"], "--out", tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    assert {"a cycle", "no order"} <= set(results) and math.isfinite(results["a cycle"]["gain_per_step"])
    assert (tmp_path / "sticky_options.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["infinite_hmm", "hdp_topics", "regressions"])
def test_model_and_guide_of_a_growing_example_are_short(name):
    """At most 40 lines from the first class or function of the model to the guide."""
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text())
    parts = [node for node in tree.body if getattr(node, "name", "") in ("Emissions", "make_model")]
    assert "make_model" in {node.name for node in parts}
    assert sum(node.end_lineno - node.lineno + 1 for node in parts) <= 40


def test_cued_options(run_script, tmp_path):
    run_script(EXAMPLES / "cued_options.py", *TINY["cued_options.py"], "--out", tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    assert {"plain η", "η(s)", "guessing"} <= set(results) and results["η(s)"]["held_out_nats_per_segment"] < 0
    assert (tmp_path / "cued_options.png").stat().st_size > 10_000


def test_mouse_decisions(run_script, tmp_path, monkeypatch):
    """From a file whose sessions are those of the simulated animal."""
    studies = load_script(monkeypatch, EXAMPLES / "mouse_decisions.py")
    truth = studies.simulated_decisions(3, 6).trajectories.cut(60)
    lines = ["session,stimulus,choice,rewarded"]
    for i in range(len(truth)):
        stimulus, choices = truth.states[i, :, 0].tolist(), truth.actions[i].tolist()
        lines += [f"s{i},{x},{('left', 'right')[c]},{int((x > 0) == c)}" for x, c in zip(stimulus, choices)]
    (tmp_path / "sessions.csv").write_text("\n".join(lines))
    loaded = studies.load_sessions(tmp_path / "sessions.csv")
    assert len(loaded) == 6 and torch.equal(loaded.actions, truth.actions)
    torch.testing.assert_close(loaded.states[:, 1:, :2], truth.states[:, 1:, :2])
    given = ("--data", tmp_path / "sessions.csv", "--out", tmp_path)
    printed = run_script(EXAMPLES / "mouse_decisions.py", *TINY["mouse_decisions.py"], *given)
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results["weights"]) == len(results["standard_errors"]) == results["num_states"] >= 1
    assert sum(results["transitions"][0]) == pytest.approx(1) and "bits per trial" in printed
    assert "accuracy" not in results and (tmp_path / "mouse_decisions.png").stat().st_size > 10_000


@pytest.mark.slow
def test_full_transitions_explain_more_where_states_follow_each_other(monkeypatch):
    """States in a cycle: from the true weights, held-out sessions gain by more than two standard errors."""
    studies = load_script(monkeypatch, EXAMPLES / "mouse_decisions.py")
    cycle = [[0.96, 0.04, 0.0], [0.0, 0.95, 0.05], [0.05, 0.0, 0.95]]
    truth = studies.simulated_decisions(101, 24, transitions=cycle)
    policy, termination = CategoricalPolicy(3, 3, 2), Termination(3, 3)
    with torch.no_grad():
        for part in (*policy.parameters(), *termination.parameters()):
            part.zero_()
        policy.heads.weight[:, 1], policy.heads.bias[:, 1] = truth.weights[:, :3], truth.weights[:, 3]
    skills = Skills(policy, termination, torch.zeros(3).log_softmax(-1))
    gain = studies.memory_gain(skills, *truth.trajectories.split(0.5))
    assert gain.mean > 2 * gain.error
    fit = studies.laplace(studies.with_memory(skills), truth.trajectories, constant_terminations=True)
    torch.testing.assert_close(studies.transition_matrix(fit.skills), torch.tensor(cycle).double(), atol=0.03, rtol=0)


def test_stick_breaking_autoencoder(run_script, tmp_path):
    name = "stick_breaking_autoencoder"
    run_script(EXAMPLES / f"{name}.py", *TINY[f"{name}.py"], "--out", tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    assert sum(results["mean_weights"]) == pytest.approx(1, abs=1e-3) and results["elbo_held_out"] < 0
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TINY if name != "atari_ppo.py"])  # test_atari.py has that one
def test_every_example_is_a_command(name, tmp_path):
    """In a fresh process, which has imported nothing else."""
    data = tmp_path / "data.npz"
    if name == "option_length.py":
        atari_demonstrations("Breakout", 4, max_steps=30).save(data)
    more = {"option_length.py": ("--data", data), "reproduce.py": ("--only", "entropy")}.get(name, ())
    done = run_command(EXAMPLES / name, *TINY[name], "--out", tmp_path / "out", *more)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "out").glob("**/*.png")) and list((tmp_path / "out").glob("**/*.json"))


@pytest.mark.slow
def test_the_exact_guide_finds_the_right_number_of_options(run_script, tmp_path):
    settings = ("--guide", "exact", "--num-messages", "4", "--epochs", "60", "--no-progress")
    run_script(TOY_MESSAGE, *settings, "--out", tmp_path)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["success"] and results["used_options"] == results["num_options"] == 4


def test_option_length(run_script, tmp_path):
    atari_demonstrations("Breakout", 4, max_steps=30).save(tmp_path / "data.npz")
    given = ("--data", tmp_path / "data.npz", "--out", tmp_path)
    run_script(EXAMPLES / "option_length.py", *TINY["option_length.py"], *given)
    runs = json.loads((tmp_path / "option_length.json").read_text())["runs"]
    assert [row["termination_cost"] for row in runs] == [0.0, 3.0]
    assert (tmp_path / "option_length.png").stat().st_size > 10_000
