"""The trainer with every method: it trains, grows where it can, explains data and is reproducible."""

import pytest
import torch
from support.episodes import make_continuous_episodes, make_episodes
from support.methods import GROWING, required_settings

from pyro_options.data import synthetic_options
from pyro_options.discovery import METHODS, build
from pyro_options.infer import Constant, Exponential, TrainConfig, Trainer
from pyro_options.infer.refinement import refine
from pyro_options.infer.restarts import exact_log_likelihood
from pyro_options.skills import to_skills


def train(name, data, epochs=3, seed=0, **config):
    torch.manual_seed(seed)
    settings = {"check_every": 2, "rule": "evidence"} | required_settings(name) | config
    if name != "bc-deep":
        settings["hidden"] = (8,)
    method = build(name, data, **settings)
    entropy = Constant(1.0 if name in GROWING else 0.0)
    settings = TrainConfig(epochs=epochs, batch_size=8, entropy_weight=entropy, progress=False, seed=seed)
    trainer = Trainer(method.model, method.guide, data, settings, method.growth)
    trainer.run()
    return trainer


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("data", [make_episodes(16), make_continuous_episodes()], ids=["discrete", "continuous"])
def test_every_method_trains_and_explains(name, data):
    trainer = train(name, data)
    assert len(trainer.history.objective) == 3 and all(torch.tensor(trainer.history.objective).isfinite())
    for parameter in trainer.parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.isfinite().all()
    found = to_skills(trainer.model, trainer.guide).segment(data)
    assert found.options.shape == data.states.shape[:2]
    assert found.usage().sum().item() == pytest.approx(1.0)
    assert 1 <= found.used_options <= trainer.model.num_options


@pytest.mark.parametrize("name", GROWING)
@pytest.mark.parametrize("birth", ["random", "split", "data"])
def test_every_nonparametric_method_grows(name, birth):
    trainer = train(name, make_episodes(16), epochs=4, birth=birth, rule="usage")
    assert trainer.model.num_options == 1 + len(trainer.history.growth_epochs) > 1
    assert trainer.guide.weights.num_components == trainer.model.num_options


@pytest.mark.parametrize("name", GROWING)
def test_every_options_method_takes_a_fixed_number(name):
    trainer = train(name, make_episodes(16), num_options=4)
    prior = "HDP" if name == "options-sticky" else "truncated"  # a hierarchical prior has no truncated form
    assert trainer.model.num_options == 4 and trainer.growth is None and trainer.model.prior == prior


@pytest.mark.parametrize("name", ["options-paper", "options-exact", "options-score-function", "compile-np"])
def test_the_same_seed_gives_the_same_numbers(name):
    runs = [train(name, make_episodes(16), seed=3) for _ in range(2)]
    assert runs[0].history.objective == runs[1].history.objective
    for a, b in zip(runs[0].parameters(), runs[1].parameters()):
        assert torch.equal(a, b)


def test_training_raises_the_exact_likelihood():
    data = make_episodes(32)
    before = train("options-exact", data, epochs=0)
    after = train("options-exact", data, epochs=40)
    gain = to_skills(after.model, after.guide).log_likelihood(data) - to_skills(
        before.model, before.guide
    ).log_likelihood(data)
    assert gain > 0.1


def test_schedules_reach_the_handlers_and_the_history():
    data = make_episodes(8)
    method = build("options-paper", data, hidden=())
    config = TrainConfig(
        epochs=3, temperature=Exponential(1.0, 0.5, floor=0.3), entropy_weight=Exponential(4.0, 0.5), progress=False
    )
    trainer = Trainer(method.model, method.guide, data, config)
    history = trainer.run()
    assert history.temperature == [1.0, 0.5, 0.3] and history.entropy_weight == [4.0, 2.0, 1.0]
    assert trainer.temper.temperature == 0.3


def test_gradients_are_clipped_globally():
    data = make_episodes(8)
    method = build("options-exact", data, hidden=())
    trainer = Trainer(method.model, method.guide, data, TrainConfig(epochs=1, clip_norm=1e-3, progress=False))
    trainer.run()
    norm = torch.stack([p.grad.norm() for p in trainer.parameters()]).norm()
    assert float(norm) == pytest.approx(1e-3, rel=1e-2)


def test_a_non_finite_loss_stops_the_run():
    data = make_episodes(8)
    method = build("options-exact", data, hidden=())
    trainer = Trainer(method.model, method.guide, data, TrainConfig(epochs=1, progress=False))
    with torch.no_grad():
        method.model.policy.heads.bias.fill_(float("nan"))
    with pytest.raises((FloatingPointError, ValueError, UserWarning)):
        trainer.run()


def test_the_elbo_of_history_leaves_the_entropy_bonus_out():
    data = make_episodes(16)
    values = []
    for weight in (0.0, 1000.0):
        method = build("options-exact", data, hidden=(), num_options=3)
        trainer = Trainer(
            method.model, method.guide, data, TrainConfig(entropy_weight=Constant(weight), progress=False)
        )
        values.append(trainer.run(0).objective)
        trainer.entropy.weight = weight
        values[-1] = trainer.step(data)
    assert abs(values[0] - values[1]) < 20  # a bonus of 1000 nats would show


@pytest.mark.parametrize("guide", ["exact", "paper"])
def test_expectation_maximization_raises_the_likelihood_where_the_path_is_summed_out(guide):
    data = synthetic_options(3, 30, (10, 20), 3, num_actions=None, seed=0).trajectories
    torch.manual_seed(0)
    made = build(None, data, guide=guide, num_options=3)
    trainer = Trainer(made.model, made.guide, data, TrainConfig(epochs=2, progress=False, device="cpu"))
    before = exact_log_likelihood(trainer)
    refine(trainer, trainer.data, 3)
    assert exact_log_likelihood(trainer) > before + 1 if guide == "exact" else exact_log_likelihood(trainer) == before
