"""The Atari examples run end to end on tiny budgets."""

import importlib
import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from support.episodes import make_episodes
from support.skill_sets import ScriptedSkills
from support.tiny_runs import EXAMPLES, TINY, load_script, parsed, run_command, same_number_of_threads

from pyro_options.data import to_minari
from pyro_options.envs import atari_demonstrations, make_atari
from pyro_options.rl import SMDPPPO
from pyro_options.skills import Skills

ATARI_DISCOVER = EXAMPLES / "atari_discover.py"


@pytest.fixture
def atari_ppo(monkeypatch):
    """The example as a module: each process of its own would compile and import for longer than it runs."""
    with same_number_of_threads():
        yield load_script(monkeypatch, EXAMPLES / "atari_ppo.py")


def with_ppo(preset, **changes):
    """A preset with other settings of PPO."""
    return replace(preset, ppo=preset.ppo | changes)


@pytest.fixture
def learn(atari_ppo, monkeypatch, tmp_path, capsys):
    """Runs the example with rollouts of 128 decisions instead of 1024; returns its rows."""
    preset = with_ppo(atari_ppo.PRESETS["ram"], n_steps=64, batch_size=64)
    monkeypatch.setitem(atari_ppo.PRESETS, "ram", replace(preset, num_envs=2))

    def run(total_steps, *arguments):
        given = ("--checkpoint-every", "128", "--total-steps", str(total_steps), "--out", str(tmp_path))
        return atari_ppo.main(parsed(atari_ppo, *TINY["atari_ppo.py"], *given, *arguments))

    return run


def test_atari_ppo_resumes(atari_ppo, learn, tmp_path, monkeypatch):
    whole = learn(256)[1]
    assert whole["curve"]["steps"] == [128, 256] and 1 <= whole["num_options"] <= 2
    assert whole["curve"]["frames"][-1] > 4 * 256 and whole["mean_duration"] > 1  # skills last
    assert "| none | 1 | 0 |" in (tmp_path / "atari_ppo.md").read_text() and (tmp_path / "atari_ppo.png").exists()

    assert learn(256)[1] == whole  # read, not repeated
    with pytest.raises(ValueError, match="the settings that"):
        learn(384)
    (tmp_path / "Freeway.json").unlink()
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="n_steps"):
        patch.setitem(atari_ppo.PRESETS, "ram", with_ppo(atari_ppo.PRESETS["ram"], n_steps=32))
        learn(384)
    longer = learn(384)[1]["curve"]
    assert longer["steps"] == [128, 256, 384]
    assert [longer[axis][:2] for axis in whole["curve"]] == list(whole["curve"].values())


def test_atari_ppo_with_all_options_together(learn, tmp_path):
    """The same skills as without, and an action more."""
    arms = ("ddo@2", "ddo@2+imitation")
    alone, together = learn(128, "--arms", *arms)
    assert alone["num_options"] == together["num_options"] and alone["curve"] != together["curve"]
    folders = [tmp_path / f"Freeway_ram_{arm}_seed0" for arm in arms]
    sizes = [SMDPPPO.load(folder / "agent.zip").action_space.n for folder in folders]
    assert sizes[1] == sizes[0] + 1
    found = [Skills.load(folder / "skills.safetensors") for folder in folders]
    assert all((x == y).all() for x, y in zip(*(skills.policy.state_dict().values() for skills in found)))


@pytest.mark.slow
def test_atari_ppo_as_a_command_with_the_rollouts_of_its_preset(tmp_path):
    done = run_command(EXAMPLES / "atari_ppo.py", *TINY["atari_ppo.py"], "--total-steps", "1024", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    runs = json.loads((tmp_path / "Freeway.json").read_text())["runs"]
    assert [(row["arm"], row["curve"]["steps"]) for row in runs] == [("none", [1024]), ("ddo@2", [1024])]


def test_atari_ppo_learns_from_pixels_while_skills_read_ram(atari_ppo, tmp_path, capsys):
    pytest.importorskip("cv2")
    setup = atari_ppo.Setup(preset="paper")
    still = ScriptedSkills(lambda x, k: 0, lambda x, k: x[0] < 0, 1, 3, state_dim=1024)
    envs = atari_ppo.make_envs("Freeway", setup, still)
    learner = SMDPPPO("CnnPolicy", envs, n_steps=4, n_epochs=1, batch_size=4, device="cpu").learn(4)
    assert learner.observation_space.shape == (4, 84, 84) and learner.num_frames >= 16


def test_atari_ppo_discovers_with_the_settings_of_the_paper(atari_ppo, tmp_path):
    args = atari_ppo.Args(preset="paper")
    assert args.episodes == 1000 and args.episode_steps == 300 and args.widths == ()
    assert "options-paper" in args.all_arms
    run = atari_ppo.grid("Freeway", args)["options-paper, seed 0"]
    assert run["num_episodes"] == 1000 and run["hidden"] == () and run["total_steps"] == 3_000_000
    setup = atari_ppo.Setup(preset="paper", num_episodes=3, episode_steps=20, epochs=1)
    (tmp_path / "run").mkdir()
    made = atari_ppo.find_skills("Freeway", "options@2", setup, 0, tmp_path / "run", "cpu").metadata
    assert made["train"]["clip_norm"] is None and made["train"]["learning_rate"] == 1e-3
    assert made["method"]["infer_first"] and made["method"]["hidden"] == []
    assert atari_ppo.Args().episodes == 300 and atari_ppo.Args().widths == (64,)


@pytest.mark.parametrize("expert_seed, num_files", [(None, 2), (7, 1)])
def test_runs_of_all_seeds_may_share_the_demonstrations(atari_ppo, tmp_path, expert_seed, num_files):
    setup = atari_ppo.Setup(num_episodes=3, episode_steps=20, epochs=1, expert_seed=expert_seed)
    for seed in (0, 1):
        (tmp_path / str(seed)).mkdir()
        atari_ppo.find_skills("Freeway", "bc", setup, seed, tmp_path / str(seed), "cpu")
    assert len(list(tmp_path.glob("*.npz"))) == num_files


def test_worker_processes_of_atari_ppo_ignore_ctrl_c(atari_ppo, monkeypatch):
    monkeypatch.setitem(atari_ppo.PRESETS, "ram", replace(atari_ppo.PRESETS["ram"], num_envs=1))
    envs = atari_ppo.make_envs("Freeway", atari_ppo.Setup(), None, processes=True)
    envs.reset()
    os.kill(envs.processes[0].pid, signal.SIGINT)
    assert envs.step(np.zeros(1, int))[0].shape == (1, 1024)
    envs.close()
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def test_atari_ppo_refuses_unknown_arms_and_games(atari_ppo, tmp_path):
    for arm in ("magic@3", "options-exact@", "options-exact@0"):
        with pytest.raises(ValueError, match=arm):
            atari_ppo.Args(arms=("none", arm))
    with pytest.raises(ValueError, match=r"bc without @K, which has 1 option, but got 'bc@8'"):
        atari_ppo.Args(arms=("bc@8",))
    for arm in ("ddo", "compile"):
        with pytest.raises(ValueError, match=f"{arm}@K, as it does not find K by itself, but got '{arm}'"):
            atari_ppo.Args(arms=(arm,))
    with pytest.raises(ValueError, match=r"compile without \+imitation.* but got 'compile@8\+imitation'"):
        atari_ppo.Args(arms=("compile@8+imitation",))
    for arm in ("none+imitation", "magic+imitation"):
        with pytest.raises(ValueError, match="arms none, or one of"):
            atari_ppo.Args(arms=(arm,))
    assert atari_ppo.Args(arms=("bc", "ddo@2", "options-exact", "options-exact@8", "ddo@2+imitation")).arms
    with pytest.raises(ValueError, match="Chess"):
        atari_ppo.Args(games=("Chess",))
    with pytest.raises(ValueError, match="finished runs in"):
        atari_ppo.main(atari_ppo.Args(out=tmp_path, run=False))


def test_the_arms_and_games_of_the_paper_are_the_default(atari_ppo):
    args = atari_ppo.Args()
    assert len(args.games) == 7 and "MontezumaRevenge" in args.games
    assert {"none", "bc", "options", "options@8", "ddo@8", "compile-np"} < set(args.all_arms)


@pytest.mark.parametrize("hours, kept", [(0.1, (3,)), (4.4, (3,)), (4.6, (3, 4)), (100.0, (3, 4, 5))])
def test_as_many_seeds_as_fit(atari_ppo, hours, kept):
    """A run takes an hour; game A shares a quarter of one for each seed. Seeds 3 and 4 lack two runs, seed 5 one."""
    budget = importlib.import_module("studies.budget")
    costs = {"A": budget.Costs(3600.0, 900.0), "B": budget.Costs.of_runs([{"processor_seconds": 3600.0}])}
    missing = {"A": ["none, seed 3", "bc, seed 3"], "B": ["bc, seed 4", "bc, seed 5", "none, seed 13"]}
    missing["A"].append("none, seed 4")
    seeds, text = budget.fitting_seeds(costs, missing, (3, 4, 5), hours)
    assert seeds == kept and f"{len(kept)} of 3 seeds" in text and ("do not fit" in text) == (hours == 0.1)


def test_hours_limit_the_seeds(atari_ppo, learn, capsys):
    rows = learn(128, "--seeds", "0", "1", "--arms", "none", "--hours", "0.00001")
    assert [row["seed"] for row in rows] == [0] and "1 of 2 seeds are begun but do not fit" in capsys.readouterr().out
    rows = learn(128, "--seeds", "0", "1", "--arms", "none", "--hours", "10")  # judged by the run that has finished
    assert [row["seed"] for row in rows] == [0, 1]


def test_learning_curves_are_thinned_and_read_where_games_had_ended(atari_ppo):
    learning = importlib.import_module("studies.learning")
    rows = [{"steps": 10 * i, "frames": 40 * i} | ({"return": float(i)} if i >= 100 else {}) for i in range(1, 301)]
    curve = learning.thinned(rows)
    assert len(curve["steps"]) == learning.POINTS and curve["steps"][-1] == 3000 and curve["return"][0] is None
    assert learning.points(curve, "frames").min() >= 100
    assert learning.return_at(curve, 40 * 99) is None and learning.return_at(curve, 40 * 200) == pytest.approx(200)
    assert learning.final_return(rows, 3000) == pytest.approx(np.mean(range(251, 301)))
    assert learning.final_return(rows[:99], 990) is None
    assert learning.average(curve) == pytest.approx(200, rel=0.02)  # of the decisions after a game had ended
    assert learning.average(learning.thinned(rows[:99])) is None


def test_seeds_that_an_arm_lacks_are_left_out(atari_ppo):
    learning = importlib.import_module("studies.learning")
    rows = [{"arm": arm, "seed": seed} for arm, seed in (("none", 0), ("ddo@2", 0), ("none", 1))]
    assert learning.whole_rounds(rows) == rows[:2] and learning.whole_rounds(rows[::2]) == rows[::2]


def test_atari_discover_with_the_scripted_expert(run_script, tmp_path):
    run_script(ATARI_DISCOVER, *TINY["atari_discover.py"], "--out", tmp_path)
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


def test_atari_discover_with_a_file_and_the_relaxed_guide(run_script, tmp_path):
    """Fixed K, and an episode that is no game of Breakout: the animation falls back to the expert and says so."""
    ram, actions = np.random.default_rng(0).integers(0, 256, (4, 12, 128), np.uint8), np.arange(48).reshape(4, 12) % 4
    np.savez(tmp_path / "data.npz", ram=ram, action=actions, length=np.full(4, 12))
    extra = ("--data", tmp_path / "data.npz", "--guide", "paper", "--num-options", "2", "--out", tmp_path / "out")
    assert "cannot be replayed" in run_script(ATARI_DISCOVER, *TINY["atari_discover.py"], *extra)
    assert json.loads((tmp_path / "out" / "results.json").read_text())["num_options"] == 2


def test_atari_discover_with_the_settings_of_the_paper(run_script, tmp_path):
    extra = ("--preset", "paper", "--num-options", "2", "--gifs", "0", "--report-episodes", "0", "--out", tmp_path)
    printed = run_script(ATARI_DISCOVER, *TINY["atari_discover.py"], *extra)
    results = json.loads((tmp_path / "results.json").read_text())
    assert "the paper's settings" in printed and (results["guide"], results["preset"]) == ("paper", "paper")
    made = Skills.load(tmp_path / "skills.safetensors").metadata
    assert made["history"]["entropy_weight"] == [5.0, 4.975] and made["train"]["learning_rate"] == 1e-3
    assert made["method"]["coupled"] is False and made["method"]["embedding"] == 0


def test_atari_discover_with_a_minari_data_set(run_script, tmp_path, monkeypatch):
    """What the expert did, by way of Minari, is replayed in the animation; an id that is not there is named."""
    pytest.importorskip("minari")
    pytest.importorskip("h5py")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    env = make_atari("Breakout")
    to_minari(atari_demonstrations("Breakout", 4, max_steps=30), "breakout/scripted-v0", env)
    env.close()
    tiny = TINY["atari_discover.py"]
    printed = run_script(ATARI_DISCOVER, *tiny, "--minari", "breakout/scripted-v0", "--out", tmp_path / "out")
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["episodes"] == results["held_out_episodes"] == 2 and results["exact_log_likelihood"] < 0
    assert "cannot be replayed" not in printed and (tmp_path / "out" / "options_0.gif").exists()
    with pytest.raises((OSError, ValueError), match="breakout/absent-v0"):
        run_script(ATARI_DISCOVER, *tiny, "--minari", "breakout/absent-v0", "--out", tmp_path / "out")


@pytest.fixture
def atari_discover(monkeypatch):
    return load_script(monkeypatch, ATARI_DISCOVER)


@pytest.mark.parametrize("gifs", ["0", "1"])
def test_atari_discover_without_a_report(atari_discover, gifs, tmp_path, capsys):
    tiny = [*TINY["atari_discover.py"], "--num-options", "2", "--max-steps", "20", "--out", str(tmp_path)]
    atari_discover.main(parsed(atari_discover, *tiny, "--gifs", gifs, "--report-episodes", "0"))
    assert (tmp_path / "options_0.gif").exists() == (gifs == "1")
    assert (tmp_path / "option_cards.png").exists() and not (tmp_path / "report.html").exists()
    assert "report.html" not in capsys.readouterr().out


def test_atari_discover_refuses_before_it_trains(atari_discover, tmp_path):
    make_episodes(8).save(tmp_path / "data.npz")
    with pytest.raises(ValueError, match=r"128 packed bytes of RAM a step but got .*float32.* observe=ram"):
        atari_discover.main(atari_discover.Args(data=tmp_path / "data.npz", out=tmp_path / "out"))
    with pytest.raises(ValueError, match="termination_cost"):
        atari_discover.main(
            parsed(atari_discover, *TINY["atari_discover.py"], "--out", str(tmp_path), "--termination-cost", "-1")
        )
    assert not list(tmp_path.glob("**/config.json"))


def test_atari_discover_takes_one_source(run_script, tmp_path):
    with pytest.raises(SystemExit, match="one of --data"):
        run_script(ATARI_DISCOVER, "--data", "a.npz", "--minari", "b", "--out", tmp_path)
