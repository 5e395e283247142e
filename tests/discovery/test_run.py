"""One call from demonstrations to skills."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from support.episodes import make_continuous_episodes, make_episodes
from support.methods import GROWING, QUICK, UNTRAINED, required_settings

import pyro_options
from pyro_options.data import Trajectories, synthetic_options
from pyro_options.discovery import METHODS, Budget, assembly, build, discover
from pyro_options.discovery.budget import active_inputs, varying_size
from pyro_options.errors import InputError
from pyro_options.infer import TrainConfig
from pyro_options.skills import Skills, label_scores


def test_the_package_exports_discover_and_skills_lazily():
    code = "import sys, pyro_options; print('torch' in sys.modules); from pyro_options import discover, Skills"
    code += "; import pyro_options.discovery.run; from pyro_options import discover as again; print(again is discover)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
    assert set(pyro_options.__all__) == {"Skills", "discover"}
    with pytest.raises(AttributeError, match="nothing"):
        _ = pyro_options.nothing


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("continuous", [False, True])
def test_every_method_gives_skills_with_metadata(method, continuous, tmp_path):
    data = make_continuous_episodes() if continuous else make_episodes(16)
    skills = discover(data, method, held_out=0.25, seed=3, check_every=2, **required_settings(method) | QUICK)
    assert isinstance(skills, Skills) and skills.discrete is not continuous
    made = skills.metadata
    assert made["episodes"] == {"train": 12, "held_out": 4}
    assert set(made["log_likelihood"]) == {"train", "held_out"}
    assert all(np.isfinite(list(made["log_likelihood"].values())))
    first = made["method"]["num_options"] or made["method"]["growth"]["initial_options"]
    if method in UNTRAINED:  # the start decides
        first = made["history"]["num_options"][0]
    assert len(made["history"]["objective"]) == 3 and made["history"]["num_options"][0] == first
    assert made["method"]["name"] == method and made["method"]["hidden"] == [*METHODS[method].get("hidden", ())]
    assert made["train"]["seed"] == 3 and made["train"]["epochs"] == 3
    moves = [move for event in made["growth"] for move in event["moves"] if move["accepted"]]
    assert bool(made["growth"]) == (method in GROWING)
    grown = sum(len(move["components"]) * (1 if move["kind"] == "birth" else -1) for move in moves)
    assert skills.num_options == first + grown
    json.dumps(made)
    skills.save(tmp_path / "skills.safetensors")
    assert Skills.load(tmp_path / "skills.safetensors").log_likelihood(data) == skills.log_likelihood(data)


def test_the_same_seed_gives_the_same_skills_and_another_does_not():
    data = make_episodes(16)
    first, again, other = (discover(data, seed=seed, num_options=3, **QUICK) for seed in (1, 1, 2))
    assert torch.equal(first.policy.heads.weight, again.policy.heads.weight)
    assert first.metadata["history"]["objective"] == again.metadata["history"]["objective"]
    assert not torch.equal(first.policy.heads.weight, other.policy.heads.weight)


def test_the_reported_likelihoods_are_those_of_the_split():
    data = make_episodes(16)
    skills = discover(data, held_out=0.25, seed=5, num_options=2, **QUICK)
    train, held = data.split(0.25, 5)
    assert skills.metadata["log_likelihood"]["train"] == pytest.approx(skills.log_likelihood(train))
    assert skills.metadata["log_likelihood"]["held_out"] == pytest.approx(skills.log_likelihood(held))
    in_use = skills.metadata["options_in_use"]
    assert 1 <= in_use["interval"][0] <= in_use["mode"] <= in_use["interval"][1] <= skills.num_options


def test_options_are_sorted_by_usage():
    skills = discover(synthetic_options(3, 30, (10, 20)).trajectories, num_options=5, **QUICK)
    usage = skills.summary.usage.tolist()
    assert usage == sorted(usage, reverse=True) and sum(usage) == pytest.approx(1)


def test_settings_reach_training_and_the_method():
    data = make_episodes(16)
    skills = discover(data, train=TrainConfig(epochs=9, clip_norm=3.0), termination_cost=1.0, hidden=(4,), **QUICK)
    assert skills.metadata["train"]["clip_norm"] == 3.0 and skills.metadata["train"]["epochs"] == 3
    assert skills.metadata["method"]["termination_cost"] == 1.0 and len(skills.policy.network) == 3
    named = discover(data, num_options=2, action_names=["a", "b", "c", "d"], **QUICK)
    assert any(name in named.describe() for name in "abcd")


def test_names_of_the_trajectories_become_those_of_the_skills(tmp_path):
    data = make_episodes(16).with_names(["x", "y", "z"], ["a", "b", "c", "d"])
    skills = discover(data, num_options=2, **QUICK)
    skills.save(tmp_path / "skills.safetensors")
    for found in (skills, Skills.load(tmp_path / "skills.safetensors"), skills.used()):
        assert found.state_names == data.state_names and found.action_names == data.action_names
    robot = make_continuous_episodes().with_names(action_names=["arm", "hand"])
    assert discover(robot, num_options=2, **QUICK).action_columns == ["arm", "hand"]


def test_packed_states_stay_packed():
    bits = torch.randint(0, 256, (8, 5, 2), dtype=torch.uint8)
    data = Trajectories(bits, torch.randint(0, 3, (8, 5)), num_actions=3, packed=True)
    skills = discover(data, num_options=2, **QUICK)
    assert skills.packed and skills.state_dim == 16 and isinstance(skills.predict(bits[0, 0].numpy(), 0), int)


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda data: discover(data.states), r"Trajectories but got Tensor\. Make them"),
        (lambda data: discover(data, "mcmc"), "method to be one of"),
        (lambda data: discover(data, held_out=1.0), "fraction"),
        (lambda data: discover(data, epochs=-1), "epochs >= 1"),
        (lambda data: discover(data, learning_rate=0.0), "learning_rate > 0"),
        (lambda data: discover(data, num_options=0), "num_options >= 1"),
        (lambda data: discover(data, termination_cost=-1.0), "cost >= 0"),
        (lambda data: discover(data, train={"epochs": 3}), "TrainConfig"),
        (lambda data: discover(data.without_actions()), "with actions"),
        (lambda data: discover(data, action_names=["a"], **QUICK), "one name"),
    ],
)
def test_bad_input_is_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call(make_episodes(8))


def test_the_budget_follows_the_data():
    long = Trajectories(torch.ones(400, 300, 1), torch.zeros(400, 300).long(), num_actions=2)
    config = Budget().train_config(long, ())
    assert config.batch_size == 16 and config.epochs == 100
    assert Budget(updates=100, updates_per_input=0).train_config(long, ()).epochs == 4
    assert Budget(updates=100, updates_per_input=200).train_config(long, ()).epochs == (1 + 1) * 200 / 25
    short = Trajectories(torch.ones(40, 5, 1), torch.zeros(40, 5).long(), num_actions=2)
    assert Budget().train_config(short, ()).batch_size == 5


def test_many_inputs_get_more_updates():
    torch.manual_seed(0)
    bits = Trajectories(torch.randint(2, (400, 300, 100)).float(), torch.zeros(400, 300).long(), num_actions=2)
    config = Budget().train_config(bits, ())
    assert config.epochs * 25 == pytest.approx(80 * 51, rel=0.01)
    assert Budget().train_config(bits[:20], ()).epochs == Budget().max_slow_epochs
    deep = Budget().train_config(bits, (8,))
    assert deep.epochs == 100 and deep.learning_rate == Budget().deep_learning_rate


def test_inputs_are_counted_whatever_their_unit():
    torch.manual_seed(0)
    states = torch.zeros(10, 20, 6).index_fill_(2, torch.tensor([1, 4]), 3.0) * torch.randint(2, (10, 20, 1))
    states[0, 0] = torch.tensor([0.0, 3, 0, 0, 0, 0])
    for unit in (1.0, 100.0):
        count = active_inputs(Trajectories(unit * states, torch.zeros(10, 20).long(), num_actions=2))
        present = float((states > 0).any(-1).float().mean())
        assert count == pytest.approx(2 * present - 1 / 200, abs=1 / 100)


def test_the_learning_rate_does_not_depend_on_the_unit():
    states = torch.randn(10, 20, 3)
    sizes = [varying_size(Trajectories(unit * states, torch.zeros(10, 20).long(), num_actions=2)) for unit in (1, 100)]
    assert sizes[1] == pytest.approx(100 * sizes[0], rel=1e-4)
    constant = torch.cat([states, torch.full((10, 20, 5), 1000.0)], -1)
    with_constants = varying_size(Trajectories(constant, torch.zeros(10, 20).long(), num_actions=2))
    assert with_constants == pytest.approx(sizes[0], rel=1e-4)


def test_unknown_settings_are_refused_with_a_list_of_the_known():
    with pytest.raises(InputError, match=r"one of .*epochs.*num_options.* but got 'epoch'"):
        discover(make_episodes(8), epoch=3)
    with pytest.raises(InputError, match=r"one of .*num_options.* but got 'options'"):
        build("options-exact", make_episodes(8), options=3)


def test_action_names_are_checked_before_training(tmp_path):
    with pytest.raises(InputError, match="one name for each discrete action"):
        discover(make_episodes(8), action_names=["a"], checkpoint=tmp_path / "run", **QUICK)
    assert not list(tmp_path.iterdir())  # what had been trained would have been saved
    discover(make_episodes(8), action_names=["a", "b", "c", "d"], checkpoint=tmp_path / "run", **QUICK)
    assert (tmp_path / "run").exists()


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_batch_of_one_episode_trains_by_score_function(batch_size):
    data = synthetic_options(2, 9, (5, 9), 3, 3).trajectories
    skills = discover(data, "options-score-function", **QUICK | {"batch_size": batch_size})
    assert np.isfinite(skills.metadata["history"]["objective"]).all()


def test_k_does_not_grow_on_a_single_episode():
    data = synthetic_options(2, 1, (30, 30)).trajectories
    skills = discover(data, initial_options=2, check_every=1, **QUICK | {"epochs": 8})
    assert skills.metadata["history"]["num_options"] == [2] * 8 and skills.num_options == 2
    assert any(move["kind"] == "birth" for event in skills.metadata["growth"] for move in event["moves"])


@pytest.mark.parametrize("dtype, size", [(torch.float16, 300.0), (torch.bfloat16, 1.0), (torch.float32, 1e30)])
def test_the_budget_does_not_depend_on_precision_or_size_of_states(dtype, size):
    torch.manual_seed(0)
    states = (size * torch.randn(10, 20, 3)).to(dtype)

    def make(states):
        return Trajectories(states, torch.zeros(10, 20).long(), num_actions=2)

    exact = make(states.double())
    assert active_inputs(make(states)) == pytest.approx(active_inputs(exact), rel=1e-5)
    assert varying_size(make(states)) == pytest.approx(varying_size(exact), rel=1e-5)
    assert Budget().train_config(make(states), ()).epochs == Budget().train_config(exact, ()).epochs
    if size == 1.0:
        assert np.isfinite(discover(make(states), num_options=2, **QUICK).metadata["log_likelihood"]["train"])


def test_the_budget_is_scaled_without_rounding():
    torch.manual_seed(0)
    sizes = torch.randn(10, 20, 3)
    data, sizes = Trajectories(sizes, torch.zeros(10, 20).long(), num_actions=2), sizes.flatten(0, 1).abs()
    assert varying_size(data) == float(sizes.sum(-1).mean())
    assert active_inputs(data) == float((sizes.sum(-1).square() / sizes.square().sum(-1)).mean())


def test_growth_gets_as_many_updates_as_a_fixed_k(monkeypatch):
    """Also where half of the episodes are kept to judge by."""
    monkeypatch.setattr(
        assembly, "Budget", partial(Budget, batch_steps=10, min_batches=1, updates=20, updates_per_input=0)
    )
    told = {"validation": 0.5, "progress": False, "device": "cpu"}
    data = Trajectories(torch.randn(20, 5, 3), torch.arange(100).view(20, 5) % 2, num_actions=2)
    runs = [discover(data, num_options=K, **told).metadata for K in (2, None)]
    assert runs[0]["updates"] == runs[1]["updates"] >= 20


@pytest.mark.parametrize("num_actions", [4, None], ids=["discrete", "continuous"])
def test_known_options_are_found_without_their_number(num_actions):
    truth = synthetic_options(3, 120, (20, 60), num_actions=num_actions, seed=1)
    data = truth.trajectories
    skills = discover(data[:100], epochs=40, device="cpu", progress=False)
    found = skills.segment(data[100:])
    assert skills.used_options == 3
    assert label_scores(found.options, truth.options[100:], data[100:].mask).accuracy >= 0.95
