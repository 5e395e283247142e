"""``preset="paper"`` is what sections 4 and 5 and appendix C of the paper say, in build and in discover."""

import pytest
import torch
from support.episodes import make_episodes
from support.methods import QUICK, required_settings

from pyro_options import discover
from pyro_options.data import Trajectories
from pyro_options.discovery import METHODS, PAPER_GUIDE, PRESETS, Growth, build, paper_settings
from pyro_options.envs import message_demonstrations
from pyro_options.errors import InputError
from pyro_options.growth import GrowableInput, RandomBirth, UsageRule, grow, growables
from pyro_options.guides import GrowableGEM, Relaxed
from pyro_options.infer import Constant, TrainConfig


def packed_episodes(count=6, steps=5):
    generator = torch.Generator().manual_seed(0)
    states = torch.randint(256, (count, steps, 128), dtype=torch.uint8, generator=generator)
    actions = torch.randint(4, (count, steps), generator=generator)
    return Trajectories(states, actions, num_actions=4, packed=True)


def test_the_message_task_is_that_of_appendix_c():
    data = message_demonstrations(3, 1000, 0)
    method = build(None, data, preset="paper")
    config, train, guide = method.config, method.train, method.guide
    assert type(guide) is Relaxed and config.guide == PAPER_GUIDE and config.prior == "gem"
    assert not guide.coupled and guide.infer_first
    assert config.hidden == (16, 16) and config.lstm_size == 32 and config.encoder_hidden == (32, 32)
    assert (train.epochs, train.batch_size, train.learning_rate, train.weights_learning_rate) == (500, 128, 5e-3, 5e-3)
    assert train.clip_norm is None and train.entropy_per == "trajectory"
    assert [train.temperature(epoch) for epoch in (0, 1, 1000)] == pytest.approx([1.0, 0.995, 0.995**1000])
    assert [train.entropy_weight(epoch) for epoch in (0, 1)] == pytest.approx([5.0, 5 * 0.995])
    growth = method.growth
    assert growth.rule == UsageRule(0.5) and growth.birth == RandomBirth() and growth.removals == ()
    assert growth.every == 80 and growth.num_components == 1  # ten epochs of eight updates
    assert method.model.policy.network[0].in_features == 2  # states as they are


def test_atari_is_that_of_appendix_c():
    method = build(None, packed_episodes(), preset="paper")
    train = method.train
    assert method.config.hidden == () and method.model.policy.heads.weight.shape == (1, 4, 1024)
    assert (train.epochs, train.learning_rate, train.weights_learning_rate) == (1500, 1e-3, 1e-3)
    assert train.temperature(1) == pytest.approx(0.999) and train.entropy_weight(1) == pytest.approx(5 * 0.995)
    assert method.guide.encoder.lstm.input_size == 1024 + 4  # no embedding


def test_everything_about_a_new_option_is_random():
    torch.manual_seed(0)
    method = build(None, message_demonstrations(3, 100, 0), preset="paper")
    modules = [method.model, method.guide]
    grow(modules, 2)
    for layer in growables(modules):
        for name, axis in layer.component_axes.items():
            one, two = (getattr(layer, name).detach().select(axis, k) for k in (1, 2))
            assert not torch.equal(one, two), (layer, name)
            assert isinstance(layer, GrowableGEM) or (one != 0).all()
    plain = build("options-paper", message_demonstrations(3, 100, 0), **PRESETS["message"])
    grow([plain.model, plain.guide], 1)
    columns = [layer for layer in growables([plain.guide]) if isinstance(layer, GrowableInput)]
    assert columns and all((layer.weight[:, 1] == 0).all() for layer in columns)


def test_the_entropy_counts_for_a_fixed_number_of_options_too():
    made = discover(make_episodes(12), preset="paper", num_options=3, **QUICK).metadata
    assert made["history"]["entropy_weight"][0] == 5.0 and made["method"]["prior"] == "truncated"
    assert not made["history"]["objective_is_bound"]
    ours = discover(make_episodes(12), "options-paper", num_options=3, **QUICK).metadata
    assert ours["history"]["entropy_weight"][0] == 0.0


def test_arguments_go_before_the_preset():
    data = make_episodes(12)
    train = TrainConfig(epochs=1, entropy_weight=Constant(1.0), progress=False, device="cpu")
    made = discover(data, preset="paper", train=train, hidden=(), growth=Growth("evidence"), progress=False).metadata
    assert made["train"]["clip_norm"] == 10.0 and made["method"]["hidden"] == []
    assert made["method"]["growth"]["rule"] == "evidence" and made["method"]["growth"]["birth"] == "data"
    assert build(None, data, preset="paper", guide="exact").train.entropy_weight(0) == 0.0
    assert build(None, data, preset="message").config.hidden == (16, 16)
    with pytest.raises(InputError, match=r"preset to be one of .*message, paper but got .papre."):
        build(None, data, preset="papre")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_takes_the_preset(name):
    data = make_episodes(10)
    method = build(name, data, preset="paper", **required_settings(name))
    assert method.train == paper_settings(data, METHODS[name]["guide"]).train
    assert method.growth is None or method.growth.birth == RandomBirth()
