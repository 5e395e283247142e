"""The scripts of benchmarks/ run on small budgets."""

import gc
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from support.tiny_runs import BENCHMARKS, load_script, run_command, same_number_of_threads
from torch.testing import assert_close

from pyro_options.data import Trajectories
from pyro_options.envs import atari_demonstrations
from pyro_options.options import CategoricalPolicy, Termination


@pytest.mark.slow
def test_a_killed_training_ends_with_the_same_bytes(tmp_path):
    out = tmp_path / "kills.json"
    done = run_command(BENCHMARKS / "kills.py", "--runs", 2, "--kills", 2, "--epochs", 6, "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads(out.read_text())
    assert record["identical"] == record["runs"] == 2 and sum(record["kills"].values()) >= 2 and not record["litter"]


SCRIPTS = sorted(path for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_starts_as_a_command(script):
    done = run_command(script, "--help")
    assert done.returncode == 0 and "--help" in done.stdout, done.stderr


def test_a_long_training_with_moves_leaves_no_stale_optimizer_state(tmp_path, monkeypatch, capsys):
    soak = load_script(monkeypatch, BENCHMARKS / "soak.py")
    gc.freeze()  # what is here already need not be searched for garbage after every move
    try:
        with same_number_of_threads():
            record = soak.main(soak.Args(steps=40, moves=20, out=tmp_path / "soak.json"))
    finally:
        gc.unfreeze()
    assert record["moves"] == 20 and record["stale_optimizer_entries"] == 0 and record["finite"]
    assert max(record["num_options"]) == 8 and min(record["num_options"]) < 8


@pytest.mark.slow
def test_ragged_data_cost_what_they_hold(tmp_path, monkeypatch):
    ragged = load_script(monkeypatch, BENCHMARKS / "ragged.py")
    record = ragged.main(ragged.Args(out=tmp_path / "ragged.json"))
    assert record["ratio"] <= 1.5 and record["stored"] == 1 and record["peak"] <= 2


def test_frames_are_measured(tmp_path, monkeypatch):
    frames = load_script(monkeypatch, BENCHMARKS / "frame_memory.py")
    record = frames.main(frames.Args(episodes=20, steps=6, size=12, epochs=1, out=tmp_path / "frames.json"))
    assert record["data_bytes"] == 20 * 6 * 12 * 12 * 4 and record["peak_bytes"]["discover"] > 0
    committed = json.loads((BENCHMARKS / "results/frame_memory.json").read_text())
    assert committed["within"] and committed["data_bytes"] == 564_480_000
    assert max(committed["peak_bytes"].values()) <= committed["limit_bytes"] == 2 * committed["data_bytes"] + 10**9


def test_mutations_change_lines_that_exist(monkeypatch):
    mutations = load_script(monkeypatch, BENCHMARKS / "mutations.py")
    assert len(mutations.MUTATIONS) >= 10
    for one in mutations.MUTATIONS:
        assert (mutations.ROOT / one.file).read_text().count(one.line) == 1, one.what
        assert one.line != one.mutated and all(
            (Path(__file__).parents[1] / name.split("::")[0]).exists() for name in one.tests
        )


def test_growing_models(run_script, tmp_path):
    out = tmp_path / "growing_models.json"
    tiny = ("--seeds", "0", "--models", "regressions", "poissons", "gaussians", "--scale", "0.05")
    printed = run_script(BENCHMARKS / "growing_models.py", *tiny, "--out", out)
    assert "regressions: " in printed and "of 1 find 5" in printed
    assert {row["model"] for row in json.loads(out.read_text())["runs"]} == {"regressions", "poissons", "gaussians"}
    assert "gaussians, ari_bayesian: 0." in printed


def test_priors_over_lengths(monkeypatch):
    lengths = load_script(monkeypatch, BENCHMARKS / "option_lengths.py")
    a, b = lengths.beta_by_moments(torch.tensor([0.1, 0.2, 0.4]))
    found = torch.distributions.Beta(a, b)
    assert_close(found.mean, torch.tensor(0.7 / 3))
    assert_close(found.variance, torch.tensor([0.1, 0.2, 0.4]).var(unbiased=False))
    shared = lengths.SharedTermination(3, 4)
    torch.nn.init.normal_(shared.heads.weight)
    logits = shared(torch.randn(2, 5, 3))
    assert logits.shape == (2, 5, 4) and torch.equal(logits, logits[..., :1].expand_as(logits))
    data = Trajectories(torch.randn(2, 7, 3), torch.randint(2, (2, 7)), torch.tensor([7, 7]), num_actions=2)
    policy, termination = CategoricalPolicy(3, 4, 2), Termination(3, 4)
    weights, every = torch.full((4,), 0.25).log(), torch.zeros(2, 7, 4)
    plain = lengths.Lengths(policy, termination)._prior_path(weights, every, data)
    assert_close(plain.log_weights, weights)
    assert_close(plain.termination_logits, every)
    costly = lengths.Lengths(policy, termination, code=1.0, least=3)._prior_path(weights, every, data)
    assert_close(costly.log_weights, 2 * weights)
    assert (costly.termination_logits[0, :, 0] == 0).tolist() == [True, False, False, True, False, False, True]


def test_recovery(run_script, tmp_path):
    out = tmp_path / "recovery.json"
    tiny = ("--seeds", "0", "--kinds", "discrete", "--num-episodes", "60", "--epochs", "1")
    assert "0 of 1 runs" in run_script(BENCHMARKS / "recovery.py", *tiny, "--out", out)
    assert not json.loads(out.read_text())["runs"][0]["passed"]


def test_hard_options_beside_the_exact_guide(run_script, tmp_path):
    out = tmp_path / "hard.json"
    few = ["--seeds", 0, "--exact-seeds", 0, "--kinds", "discrete", "--messages", 2, "--exact-messages", 2]
    few += [
        "--tasks",
        "random_actions",
        "--task-seeds",
        0,
        "--episodes",
        20,
        "--epochs",
        1,
        "--task-epochs",
        1,
        "--out",
        out,
    ]
    printed = run_script(BENCHMARKS / "hard_options.py", *few)
    rows = {row["name"]: row for row in json.loads(out.read_text())["runs"]}
    assert rows["discrete, options-hard, seed 0"]["solved"] and rows["2 messages, options-hard, seed 0"]["solved"]
    assert {row["part"] for row in rows.values()} == {"known", "messages", "starts"} and "random_actions" in printed


def test_gradient_estimates(run_script, tmp_path):
    out, figure, bounds = tmp_path / "estimators.json", tmp_path / "estimators.png", tmp_path / "bounds.png"
    names = ["exact", "paper", "leave-one-out", "wake-sleep", "relaxed-marginal"]
    few = ["--seeds", 0, "--epochs", 0, 2, "--draws", 4, "--estimators", *names]
    run_script(BENCHMARKS / "estimators.py", *few, "--out", out, "--figure", figure, "--bound-figure", bounds)
    last = {row["estimator"]: row["curve"][-1] for row in json.loads(out.read_text())["runs"]}
    assert list(last) == names and figure.exists() and bounds.exists()
    assert last["exact"]["model_gradient"]["bias"] < 1e-3 and last["exact"]["divergence"] == 0
    gap = last["relaxed-marginal"]["log_marginal"] - last["relaxed-marginal"]["objective"]
    assert gap == pytest.approx(last["relaxed-marginal"]["divergence"], abs=0.03) and gap > -1e-6
    assert last["relaxed-marginal"]["guide_gradient"]["cosine"] > 0.99


def test_growth_against_fixed_k_on_breakout(run_script, tmp_path):
    atari_demonstrations("Breakout", 5, max_steps=60).save(tmp_path / "data.npz")
    out = tmp_path / "breakout.json"
    tiny = ("--data", tmp_path / "data.npz", "--epochs", "1", "--fixed", "1", "2", "--no-paper", "--no-progress")
    printed = run_script(BENCHMARKS / "breakout.py", *tiny, "--out", out)
    assert "growth - K = 1: " in printed and "growth - K = 2: " in printed
    rows = json.loads(out.read_text())["runs"]
    assert [row["row"] for row in rows] == ["growth, exact guide", "K = 1", "K = 2"]
    assert set(rows[1]["held_out_seen_in_training"]) == {"states", "episodes"}


def test_baselines_on_known_options(run_script, tmp_path):
    out, before = tmp_path / "baselines.json", None
    tiny = ("--seeds", "0", "--num-episodes", "24", "--held-out", "8", "--epochs", "1", "--out", out)
    for _ in range(2):
        printed = run_script(BENCHMARKS / "baselines.py", *tiny)
        assert "ddo - options-exact, seed 0:" in printed and "of 1 seeds" in printed
        assert before in (None, out.read_bytes())  # what is there is not run again
        before = out.read_bytes()
    assert [row["arm"] for row in json.loads(before)["runs"]] == ["ddo", "options-exact", "compile-np"]


def test_integer_sequences(run_script, tmp_path):
    out = tmp_path / "integers.json"
    tiny = ("--seeds", "0", "--num-episodes", "40", "--held-out", "20", "--epochs", "2", "--beginning", "1")
    printed = run_script(BENCHMARKS / "integers.py", *tiny, "--restarts", "2", "--out", out)
    assert printed.count("0 of 1 seeds") == 3
    rows = json.loads(out.read_text())["runs"]
    assert [row["method"] for row in rows] == ["compile", "options-exact", "options-exact-np"]
    assert rows[0]["decoded"].keys() <= rows[0].keys()


def test_games_of_skills_alone_and_together(run_script, tmp_path):
    out = tmp_path / "imitation.json"
    tiny = ("--games", "Freeway", "--arms", "bc", "options-exact@2", "--seeds", "0", "--num-episodes", "6")
    tiny += ("--epochs", "1", "--num-games", "2", "--max-steps", "100", "--cache", tmp_path)
    printed = run_script(BENCHMARKS / "imitation.py", *tiny, "--out", out)
    clone, options = json.loads(out.read_text())["runs"]
    assert clone["alone"] == [clone["together"]] and len(options["alone"]) == options["num_options"]
    assert clone["expert"] >= 1 and "together" in printed  # who crosses the road within 400 frames


def test_the_breakout_benchmark_counts_what_was_seen_in_training(monkeypatch):
    overlap = load_script(monkeypatch, BENCHMARKS / "breakout.py").overlap
    states = np.arange(8, dtype=np.uint8).reshape(2, 4, 1)
    data = Trajectories(states, np.zeros((2, 4), np.int64), packed=True)
    held = Trajectories(np.array([states[0], states[1] + 2]), np.zeros((2, 4), np.int64), packed=True)
    assert overlap(data, held) == {"states": 0.75, "episodes": 0.5}


def test_guides_on_atari(run_script, tmp_path):
    atari_demonstrations("Breakout", 5, max_steps=60).save(tmp_path / "data.npz")
    out = tmp_path / "guides.json"
    tiny = ("--seeds", "0", "--epochs", "1", "--held-out", "0.4", "--guides", "exact", "relaxed", "--no-progress")
    printed = run_script(BENCHMARKS / "guides.py", *tiny, "--data", tmp_path / "data.npz", "--out", out)
    assert "| growth, relaxed |" in printed and "| one policy |" in printed
    assert len(json.loads(out.read_text())["runs"]) == 5 and out.with_suffix(".md").read_text() in printed


def test_emulator_steps_are_measured(tmp_path, monkeypatch):
    script = load_script(monkeypatch, BENCHMARKS / "atari_throughput.py")
    monkeypatch.setattr(script, "ROLLOUT", 256)
    out = tmp_path / "throughput.json"
    with same_number_of_threads():
        script.main(script.Args(("Breakout",), num_envs=2, num_options=2, decisions=4, rounds=1, out=out))
    (row,) = json.loads(out.read_text())["results"]
    rates = row["steps_per_second"]
    assert min(rates.values()) > 0 and row["gain"] == rates["vector"] / rates["wrapped"]


def test_plans_for_montezuma_are_searched_and_kept(tmp_path, monkeypatch, capsys):
    script = load_script(monkeypatch, BENCHMARKS / "montezuma_plans.py")
    committed = script.load_plans()
    out = tmp_path / "plans.safetensors"
    script.save_plans(out, {0: committed[0]})
    start = next(one for one in committed if one and committed[one] == committed[0])
    plans = script.main(script.Args(starts=(0, start), out=out))
    assert plans[start] == committed[0] and script.load_plans(out) == plans
    assert "a plan of another start" in capsys.readouterr().out
    script.main(script.Args(starts=(1,), max_steps=50, out=tmp_path / "none.safetensors"))
    assert "no reward in 50 steps" in capsys.readouterr().out


def test_steps_on_packed_bytes_are_measured(tmp_path, monkeypatch):
    ram_steps = load_script(monkeypatch, BENCHMARKS / "ram_steps.py")
    with same_number_of_threads():
        args = ram_steps.Args(episodes=4, steps=260, rounds=1, naive_rounds=1, out=tmp_path / "ram.json")
        record = ram_steps.main(args)
    assert set(record["ratios"]) == {"1024", "228"} and min(record["seconds"]["1024"].values()) > 0
    assert max(record["errors"].values()) < 1e-5
    committed = json.loads((BENCHMARKS / "results/ram_steps.json").read_text())["ratios"]["1024"]
    assert committed["exact / unpacked"] <= 0.7 and committed["relaxed / floor"] <= 2
    assert committed["loading / exact"] <= 0.2


@pytest.mark.slow
def test_mapped_demonstrations_stay_in_their_files(tmp_path, monkeypatch):
    mapped = load_script(monkeypatch, BENCHMARKS / "mapped_memory.py")
    found = mapped.main(mapped.Args(steps=60_000, folder=tmp_path / "mapped", out=tmp_path / "mapped.json"))
    assert found["folder_bytes"] > 60_000 * 129 and found["anonymous_bytes"] > 0
    committed = json.loads((BENCHMARKS / "results/mapped_memory.json").read_text())
    assert committed["steps"] == 10_000_000 and committed["anonymous_bytes"] <= 1.3e9


def test_a_training_from_the_labels_beside_discovery(run_script, tmp_path):
    out = tmp_path / "from_labels.json"
    printed = run_script(BENCHMARKS / "from_labels.py", "--episodes", 12, "--epochs", 3, "--out", out)
    labels, found = json.loads(out.read_text())["runs"]
    assert "labels: " in printed and (labels["start"], found["start"]) == ("labels", "discover")
    assert labels["num_options"] == 8 and labels["accuracy"] > 0.7  # it starts at the truth
    assert np.isfinite([labels["held_out_log_likelihood"], found["held_out_log_likelihood"]]).all()
