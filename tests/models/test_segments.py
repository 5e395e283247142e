"""CompILE as a Pyro program, against brute force over boundaries and skills; its skills; the integer task."""

import itertools
import math

import gymnasium as gym
import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import Predictive
from support.episodes import make_episodes, two_kinds_of_episodes
from torch.testing import assert_close

from pyro_options.data import Trajectories, integer_sequences
from pyro_options.discovery import PRESETS, build, discover
from pyro_options.envs import SkillWrapper
from pyro_options.growth import grow
from pyro_options.handlers import collapse, temper
from pyro_options.infer import TrainConfig, Trainer
from pyro_options.skills import Skills, to_skills

T, K, M = 3, 2, 3


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def one_episode(length=T):
    generator = torch.Generator().manual_seed(length)
    states = torch.randn(1, T, 2, generator=generator)
    return Trajectories(states, torch.randint(4, (1, T), generator=generator), torch.tensor([length]), 4)


def method(data, name="compile", **config):
    torch.manual_seed(1)
    settings = {"num_options": K, "num_segments": M, "segment_length": 1.3, "hidden": (4,), "lstm_size": 4}
    return build(name, data, **settings | {"encoder_hidden": (4,)} | config)


def every_value(length):
    """Every ordered pair of boundaries with every choice of skills, as the sites hold them."""
    eye, hot = torch.eye(K), torch.eye(T + 1)
    for ends in itertools.combinations_with_replacement(range(length + 1), M - 1):
        for skills in itertools.product(range(K), repeat=M):
            yield {"boundaries": hot[list(ends)].unsqueeze(0), "skills": eye[list(skills)].unsqueeze(0)}


def log_prob(program, value, data):
    with pyro.get_param_store().scope(), torch.no_grad():
        return poutine.trace(poutine.condition(program, data=value)).get_trace(data).log_prob_sum()


@pytest.mark.parametrize("length", [1, T])
def test_the_joint_sums_to_the_collapsed_model_and_the_guide_to_one(double, length):
    data = one_episode(length)
    both = method(data)
    values = list(every_value(length))
    joint = torch.stack([log_prob(both.model, value, data) for value in values])
    assert_close(torch.logsumexp(joint, 0), log_prob(collapse(both.model), {}, data))
    guide = torch.stack([log_prob(both.guide, value, data) for value in values])
    assert float(guide.exp().sum()) == pytest.approx(1)


def test_the_elbo_at_low_temperature_equals_enumeration_and_is_a_bound(double):
    data = one_episode()
    both = method(data)
    joint, guide = (
        torch.stack([log_prob(program, value, data) for value in every_value(T)])
        for program in (both.model, both.guide)
    )
    elbo = float((guide.exp() * (joint - guide)).sum())
    assert elbo < float(torch.logsumexp(joint, 0))
    many = data[[0] * 4000]
    with torch.no_grad(), pyro.get_param_store().scope():
        trace = poutine.trace(temper(both.guide, 1e-6)).get_trace(many)
        replayed = poutine.trace(poutine.replay(both.model, trace)).get_trace(many)
        samples = replayed.log_prob_sum() - trace.log_prob_sum()
    spread = float((guide.exp() * (joint - guide - elbo) ** 2).sum()) ** 0.5
    assert float(samples) / len(many) == pytest.approx(elbo, abs=4 * spread / math.sqrt(len(many)))


def test_padding_does_not_change_any_result():
    data = make_episodes(6)
    both = method(data)
    grown = Trajectories(
        torch.nn.functional.pad(data.states, (0, 0, 0, 3)),
        torch.nn.functional.pad(data.actions, (0, 3)),
        data.lengths,
        4,
    )
    assert_close(log_prob(collapse(both.model), {}, grown), log_prob(collapse(both.model), {}, data))
    for one, other in zip(both.guide.segment(data), both.guide.segment(grown)):
        assert torch.equal(one[data.mask], other[grown.mask])


@pytest.mark.parametrize("prior", ["uniform", "gem"])
def test_the_model_draws_actions(prior):
    data = make_episodes(6)
    both = method(data, "compile") if prior == "uniform" else method(data, "compile-np", num_options=None)
    drawn = Predictive(both.model, num_samples=5)(data.without_actions())
    assert drawn["actions"].shape == (5, 6, 5)
    assert drawn["boundaries"].shape == (5, 6, M - 1, 6)
    assert set(drawn["actions"].unique().tolist()) <= {0, 1, 2, 3}


@pytest.mark.parametrize("useful", [False, True])
def test_growth_judges_by_the_exact_likelihood(useful):
    data = two_kinds_of_episodes()
    both = method(data, "compile-np", num_options=None, rule="trial", initial_options=1)
    trainer = Trainer(both.model, both.guide, data, TrainConfig(batch_size=20, progress=False), both.growth)
    grow([both.model, both.guide], 1, trainer.optimizer)
    heads = both.model.policy.heads
    with torch.no_grad():  # two skills that say the same, or each what one kind of episode says
        heads.weight.zero_()
        heads.bias.copy_(4 * torch.eye(4)[[0, 1]] if useful else torch.tensor([2.0, 2.0, 0.0, 0.0]).expand(2, 4))
    assert trainer.observe_and_grow(births=False).num_removed == (0 if useful else 1)
    K = 2 if useful else 1
    assert both.model.num_options == both.guide.weights.num_components == both.guide.encoder.num_options == K


def test_skills_stop_at_max_duration_or_with_the_rate_of_segments():
    data = make_episodes(8, num_steps=12)
    rates = {}
    for cap in (None, 15):
        both = method(data, segment_length=4.0, max_duration=cap)
        skills = to_skills(both.model, both.guide)
        assert skills.max_duration == cap and skills.segments == both.model.segments
        rates[cap] = skills.termination_probability(data.states[0].numpy(), 0)
    assert rates[None] == pytest.approx(0.25, abs=1e-6) and (rates[15] < 1e-12).all()


class Still(gym.Env):
    """Nothing happens for a hundred steps."""

    action_space = gym.spaces.Discrete(4)
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), 1.0, False, False, {}


def test_skills_of_compile_segment_save_describe_and_run(tmp_path):
    data = make_episodes(16)
    settings = {"epochs": 2, "batch_size": 8, "progress": False, "device": "cpu"}
    skills = discover(data, "compile", num_options=3, num_segments=3, max_duration=15, **settings)
    found = skills.segment(data)
    assert found.options.shape == data.states.shape[:2] and len(skills.describe().split("\n\n")[0].splitlines()) == 4
    assert int((found.starts & data.mask).sum(1).max()) <= 3
    assert found.log_likelihood_per_step == pytest.approx(skills.log_likelihood(data), abs=1e-5)
    skills.save(tmp_path / "skills.safetensors")
    again = Skills.load(tmp_path / "skills.safetensors")
    assert again.segments == skills.segments and torch.equal(again.segment(data).options, found.options)
    assert again.only([1]).segments == skills.segments
    env = SkillWrapper(Still(), again)
    env.reset(seed=0)
    assert env.step(4)[4]["duration"] == 15


def test_the_preset_for_atari():
    data = make_episodes(8)
    both = build("compile-np", data, **PRESETS["compile-atari"])
    assert both.model.segments.count == 7 and both.model.max_duration == 15


@pytest.mark.parametrize(
    "config, match",
    [
        ({"num_segments": 1}, "2 segments"),
        ({"segment_length": -1.0}, "mean length"),
        ({"max_duration": 0}, "max_duration"),
        ({"termination_cost": 1.0}, "termination_cost"),
        ({"num_options": None}, "num_options"),
    ],
)
def test_bad_settings_are_refused(config, match):
    with pytest.raises(ValueError, match=match):
        method(make_episodes(4), **config)


def test_integer_sequences_have_the_statistics_they_were_asked_for():
    truth = integer_sequences(500, num_symbols=5, num_segments=3, mean_length=3.0, seed=4)
    data = truth.trajectories
    assert torch.equal(data.actions, truth.options) and data.num_actions == 5
    assert (truth.switches.sum(1) == 3).all() and not (truth.switches & ~data.mask).any()
    changes = data.actions[:, 1:] != data.actions[:, :-1]
    assert torch.equal(changes & data.mask[:, 1:], truth.switches[:, 1:])
    mean = 3 / (1 - math.exp(-3))  # of a Poisson length that is at least one
    assert data.num_steps / (3 * 500) == pytest.approx(mean, abs=4 * math.sqrt(mean / 1500))
    assert torch.bincount(data.actions[:, 0], minlength=5).min() > 60
    assert torch.equal(integer_sequences(500, seed=4).options, truth.options)
    with pytest.raises(ValueError, match="num_symbols"):
        integer_sequences(num_symbols=1)
