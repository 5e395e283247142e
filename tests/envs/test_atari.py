"""Atari environments, their wrappers and the experts."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from stable_baselines3.common.evaluation import evaluate_policy
from support.tiny_runs import BENCHMARKS, load_script

from pyro_options.data import Trajectories, collect
from pyro_options.envs import EXPERTS, atari, atari_demonstrations, expert_rollouts, load_atari, make_atari, ram
from pyro_options.envs.experts import breakout
from pyro_options.envs.ram_game import make_emulator, start_states


def test_an_action_lasts_four_frames():
    skipping, plain = make_atari("Breakout", noops=0), make_atari("Breakout", frame_skip=1, noops=0)
    assert np.array_equal(skipping.reset(seed=0)[0], plain.reset(seed=0)[0])
    for action in (1, 2, 2, 0, 3):
        after = skipping.step(action)[0]
        for _ in range(4):
            expected = plain.step(action)[0]
        assert np.array_equal(after, expected)
    assert after.shape == (128,) and after.dtype == np.uint8


def test_noop_starts_vary_and_follow_the_seed():
    env = make_atari("Breakout", noops=30)
    starts = [[env.reset(seed=3 if i == 0 else None)[0].tobytes() for i in range(6)] for _ in range(2)]
    assert starts[0] == starts[1] and len(set(starts[0])) > 1


@pytest.mark.parametrize("game", ["Freeway", "ChopperCommand"])
def test_a_start_does_not_depend_on_the_game_before(game):
    """In these games the RAM after a bare reset does, for one of a few lengths of the game before."""
    emulator, known = make_emulator(game), set()
    for state in start_states(game):
        emulator.restoreState(state)
        known.add(emulator.getRAM().tobytes())
    env = make_atari(game)
    env.reset(seed=0)
    for num_steps in range(1, 9):
        for _ in range(num_steps):
            env.step(0)
        assert env.reset()[0].tobytes() in known


def test_a_time_limit_truncates():
    env = make_atari("Freeway", max_steps=2)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(2)] == [False, True]


def test_ram_is_recorded_for_an_agent_that_sees_pixels():
    pytest.importorskip("cv2")
    env = make_atari("Pong", observation="pixels")
    seen = []
    data = collect(
        env, lambda observation: seen.append(observation.shape) or 0, 1, max_steps=3, observe=ram, packed=True
    )
    assert data.stored.shape == (1, 3, 128) and set(seen) == {(4, 84, 84)}


@pytest.mark.parametrize(
    "game, num_steps, at_least", [("Breakout", 400, 9), ("Pong", 350, 1), ("Freeway", 600, 8)], ids=str
)
def test_experts_score(game, num_steps, at_least):
    """A small share of an episode; ``benchmarks/experts.py`` plays whole ones."""
    done = expert_rollouts(game, 1, max_steps=num_steps, seed=1)
    data = done.trajectories
    assert float(done.returns[0]) >= at_least
    assert data.packed and data.state_dim == 1024 and data.num_actions == {"Breakout": 4, "Pong": 6, "Freeway": 3}[game]


@pytest.mark.parametrize("left, landing", [(2, 80), (254, 88)], ids=["off the wall", "straight"])
def test_the_breakout_expert_sees_the_ball_bounce(left, landing):
    ram = [0] * 128
    ram[99], ram[101], ram[103], ram[105] = 60, 149, 2, left  # 14 frames above the paddle
    assert breakout._landing(ram) == (landing, 14)


def test_demonstrations_reproduce_and_differ():
    runs = [atari_demonstrations("Breakout", 2, max_steps=40, seed=seed) for seed in (0, 0, 1)]
    assert torch.equal(runs[0].stored, runs[1].stored) and torch.equal(runs[0].actions, runs[1].actions)
    assert not torch.equal(runs[0].stored, runs[2].stored)
    assert not torch.equal(runs[0].stored[0], runs[0].stored[1])


def test_of_several_that_want_the_same_demonstrations_one_records(tmp_path, monkeypatch):
    recordings = []

    def recorded(*args, **options):
        recordings.append(args)
        time.sleep(0.2)  # the others come in the meantime
        return expert_rollouts(*args, **options)

    monkeypatch.setattr(atari, "expert_rollouts", recorded)
    with ThreadPoolExecutor(3) as pool:
        wanted = [pool.submit(atari_demonstrations, "Freeway", 1, cache=tmp_path, max_steps=5) for _ in range(3)]
        found = [one.result() for one in wanted]
    assert len(recordings) == 1 and all(torch.equal(one.actions, found[0].actions) for one in found)


@pytest.mark.parametrize("game", sorted(EXPERTS))
def test_experts_play_for_stable_baselines(game):
    _, lengths = evaluate_policy(
        EXPERTS[game](), make_atari(game, max_steps=12), 2, return_episode_rewards=True, warn=False
    )
    assert lengths == [12, 12]


@pytest.mark.parametrize("game", sorted(EXPERTS))
def test_one_observation_and_many_agree(game):
    env, expert = make_atari(game), EXPERTS[game]()
    observation, alone, many = env.reset(seed=0)[0], None, None
    for t in range(12):
        first = np.array([t == 0])
        action, alone = expert.predict(observation, alone, first)
        actions, many = expert.predict(np.stack([observation, observation]), many, np.repeat(first, 2))
        assert actions.tolist() == [action, action]
        observation = env.step(int(action))[0]


def test_files_of_either_kind_are_read(tmp_path):
    states, actions = np.zeros((2, 3, 128), np.uint8), np.zeros((2, 3), np.int64)
    Trajectories(states, actions, packed=True).save(tmp_path / "own.npz")
    np.savez(tmp_path / "arrays.npz", ram=states, action=actions, length=np.array([3, 2]))
    assert load_atari(tmp_path / "own.npz").packed and load_atari(tmp_path / "arrays.npz").num_steps == 5
    np.savez(tmp_path / "other.npz", pixels=np.zeros(3))
    with pytest.raises(ValueError, match="'ram'"):
        load_atari(tmp_path / "other.npz")


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="a game that ale-py has but got 'breakout'"):
        make_atari("breakout")
    with pytest.raises(ValueError, match="one of Alien, Asterix, Asteroids, Breakout"):
        atari_demonstrations("Qbert", 1)
    with pytest.raises(ValueError, match="RAM of 128 bytes"):
        EXPERTS["Pong"]().predict(np.zeros((84, 84)))
    with pytest.raises(ValueError, match="observation to be one of"):
        make_atari("Pong", observation="screen")


def test_the_benchmark_writes_every_return(tmp_path, monkeypatch):
    experts = load_script(monkeypatch, BENCHMARKS / "experts.py")
    args = experts.Args(("Freeway",), 2, max_steps=20, out=tmp_path / "results" / "experts.json", progress=False)
    monkeypatch.setattr(experts, "LONGEST", 30)
    experts.main(replace(args, num_demonstrations=2))
    record = json.loads(args.out.read_text())
    assert record["args"]["seed"] == 0 and record["results"][0]["lengths"] == [20, 20]
    assert len(record["results"][0]["random_returns"]) == len(record["results"][0]["clone_returns"]) == 2
    assert record["results"][0]["expert"] == "FreewayExpert"


def test_the_benchmark_keeps_games_of_the_same_settings(tmp_path, monkeypatch):
    experts = load_script(monkeypatch, BENCHMARKS / "experts.py")
    small = {"num_episodes": 1, "num_demonstrations": 0, "max_steps": 5}
    args = experts.Args(("Freeway",), **small, out=tmp_path / "experts.json", progress=False)
    first = experts.main(args)
    monkeypatch.setattr(
        experts, "measure", lambda game, kind, args: {**first[0], "game": game, "kind": kind, "mean_return": -1.0}
    )
    assert experts.main(args) == first
    assert experts.main(replace(args, games=("Pong",)))[0]["mean_return"] == -1.0
    assert {row["game"] for row in json.loads(args.out.read_text())["results"]} == {"Freeway", "Pong"}
    assert first[0]["clone_mean_return"] is None
    for changed in ({"seed": 1}, {"max_steps": 6}, {"num_demonstrations": 1}):
        assert experts.main(replace(args, **changed))[0]["mean_return"] == -1.0


def test_the_benchmark_measures_other_kinds_where_a_network_guides_the_expert(tmp_path, monkeypatch):
    experts = load_script(monkeypatch, BENCHMARKS / "experts.py")
    monkeypatch.setitem(experts.MAX_STEPS, "Asterix", 10)
    small = {"num_episodes": 1, "num_demonstrations": 0, "progress": False, "out": tmp_path / "experts.json"}
    args = experts.Args(("Asterix", "Freeway"), **small, kinds=("expert", "network", "search"))
    found = {(row["game"], row["kind"]): (row["expert"], row["whole_mean_return"]) for row in experts.main(args)}
    assert {key: name for key, (name, _) in found.items()} == {
        ("Asterix", "expert"): "GuidedSearchExpert",
        ("Asterix", "network"): "PolicyExpert",
        ("Asterix", "search"): "SearchExpert",
        ("Freeway", "expert"): "FreewayExpert",
    }
    assert [key for key, (_, whole) in found.items() if whole is not None] == [("Asterix", "network")]
