"""Handlers that observe, temper and regularize a model."""

import math

import pyro
import pytest
import torch
from pyro import poutine
from support.episodes import make_episodes
from support.option_models import make_model
from torch.testing import assert_close

from pyro_options.errors import InputError
from pyro_options.guides import Exact, Relaxed, weights_guide
from pyro_options.handlers import (
    EntropyMessenger,
    ObserveMessenger,
    WeighRowsMessenger,
    collapse,
    entropy_bonus,
    temper,
    usage_entropy,
)
from pyro_options.infer import TrainConfig, Trainer
from pyro_options.options import PathEncoder


def test_temper_reaches_relaxed_sites_only():
    episodes = make_episodes()
    guide = Relaxed(weights_guide("gem", 3), PathEncoder(7, 3))
    trace = poutine.trace(temper(guide, 0.25)).get_trace(episodes)
    assert trace.nodes["path"]["fn"].temperature == 0.25
    poutine.trace(temper(Exact(weights_guide("gem", 3)), 0.25)).get_trace(episodes)


def test_a_lower_temperature_gives_sharper_paths():
    guide = Relaxed(weights_guide("gem", 3), PathEncoder(7, 3))

    def sharpness(temperature):
        torch.manual_seed(0)
        path = poutine.trace(temper(guide, temperature)).get_trace(make_episodes(50)).nodes["path"]["value"]
        return float(path[..., 1:].max(-1).values.mean().detach())

    assert sharpness(0.05) > 0.95 > sharpness(5.0)


def test_usage_entropy_by_hand():
    one_hot = torch.eye(2)
    each_its_own = torch.stack([one_hot[[0, 0]], one_hot[[1, 1]]])  # two episodes, each true to its option
    both_mixed = torch.stack([one_hot[[0, 1]], one_hot[[1, 0]]])
    assert_close(usage_entropy(each_its_own, None, "batch"), torch.tensor(math.log(2)))
    assert_close(usage_entropy(each_its_own, None, "trajectory"), torch.tensor(0.0))
    assert_close(usage_entropy(both_mixed, None, "trajectory"), torch.tensor(math.log(2)))


def test_usage_entropy_ignores_padding():
    h = torch.softmax(torch.randn(3, 4, 2), -1)
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]).bool()
    by_hand = torch.cat([h[0, :2], h[1], h[2, :1]]).mean(0)
    expected = -(by_hand * by_hand.log()).sum()
    assert_close(usage_entropy(h * mask.unsqueeze(-1), mask, "batch"), expected)


@pytest.mark.parametrize("per", ["batch", "trajectory"])
@pytest.mark.parametrize("collapsed", [True, False])
def test_entropy_bonus_adds_one_factor_scaled_to_the_population(per, collapsed):
    episodes = make_episodes(80)
    batch = next(iter(episodes.minibatches(40)))
    model = collapse(make_model("uniform")) if collapsed else make_model("uniform")
    messenger = EntropyMessenger(3.0, "actions", per)
    trace = poutine.trace(messenger(model)).get_trace(batch)
    trace.compute_log_prob()
    factor = float(trace.nodes["usage_entropy"]["log_prob_sum"].detach())
    assert 0 < factor <= 80 * 3.0 * math.log(3)
    assert factor == pytest.approx(80 * messenger.bonus, rel=1e-5)


@pytest.mark.parametrize("per", ["batch", "trajectory"])
def test_the_entropy_of_vectorized_particles_is_that_of_each(per):
    h = torch.softmax(torch.randn(4, 3, 5, 2), -1)  # four particles
    mask = torch.tensor([2, 5, 1]).unsqueeze(-1) > torch.arange(5)
    found = usage_entropy(h * mask.unsqueeze(-1), mask, per, particles=1)
    assert_close(found, torch.stack([usage_entropy(each * mask.unsqueeze(-1), mask, per) for each in h]))


def test_entropy_bonus_of_weight_zero_adds_nothing():
    trace = poutine.trace(entropy_bonus(make_model(), 0.0, "actions")).get_trace(make_episodes())
    assert "usage_entropy" not in trace.nodes


def test_entropy_bonus_is_differentiable_through_the_exact_posterior():
    model = make_model("uniform")
    trace = poutine.trace(entropy_bonus(collapse(model), 1.0, "actions")).get_trace(make_episodes())
    trace.compute_log_prob()
    grads = torch.autograd.grad(trace.nodes["usage_entropy"]["log_prob_sum"], list(model.policy.parameters()))
    assert all(grad.isfinite().all() and (grad != 0).any() for grad in grads)


def test_the_observer_measures_usage_and_does_not_change_the_model():
    episodes, model = make_episodes(), make_model("uniform")
    observer = ObserveMessenger("actions")
    torch.manual_seed(0)
    plain = poutine.trace(model).get_trace(episodes).nodes["path"]["value"]
    torch.manual_seed(0)
    with observer:
        for batch in episodes.minibatches(4):
            collapse(model)(batch)
    with observer:
        observer.reset()
        torch.manual_seed(0)
        watched = poutine.trace(model).get_trace(episodes).nodes["path"]["value"]
    assert torch.equal(plain, watched)
    emission = model.policy(episodes.states).component_log_prob(episodes.actions)
    best = emission.argmax(-1)[episodes.mask]
    usage = observer.usage()
    assert_close(usage.likelihood, torch.bincount(best, minlength=3) / len(best))
    assert_close(usage.posterior.sum(), torch.tensor(1.0))
    assert usage.num_points == episodes.num_steps


def test_observer_over_minibatches_equals_observer_over_all():
    episodes, model = make_episodes(7), make_model("uniform")
    usages = []
    for size in (2, 7):
        observer = ObserveMessenger("actions")
        with torch.no_grad(), observer:
            for batch in episodes.minibatches(size):
                collapse(model)(batch)
        usages.append(observer.usage())
    assert torch.equal(usages[0].likelihood, usages[1].likelihood)
    assert_close(usages[0].posterior, usages[1].posterior)


def test_training_handlers_leave_the_callers_param_store_alone():
    pyro.param("mine", torch.tensor(1.0))
    model = make_model()
    Trainer(model, Exact(weights_guide("gem", 3)), make_episodes(), TrainConfig(epochs=1, progress=False)).run()
    assert list(pyro.get_param_store().keys()) == ["mine"]


def test_rows_are_weighed_inside_their_plate_alone():
    def model(values):
        pyro.sample("all", pyro.distributions.Normal(0.0, 1.0), obs=torch.tensor(0.5))
        with pyro.plate("rows", 10, subsample=torch.arange(len(values))):
            pyro.sample("x", pyro.distributions.Normal(0.0, 1.0), obs=values)

    values, weights = torch.randn(4), torch.tensor([2.0, 2.0, 0.0, 0.0])
    plain = poutine.trace(model).get_trace(values)
    weighed = poutine.trace(WeighRowsMessenger(weights, observes=True)(model)).get_trace(values)
    plain.compute_log_prob(), weighed.compute_log_prob()
    assert_close(weighed.nodes["x"]["log_prob"], weights * plain.nodes["x"]["log_prob"])
    assert_close(weighed.nodes["all"]["log_prob"], plain.nodes["all"]["log_prob"])


def test_a_model_without_a_plate_of_rows_cannot_be_weighed():
    def model(values):
        pyro.sample("x", pyro.distributions.Normal(0.0, 1.0).expand(values.shape).to_event(1), obs=values)

    with pytest.raises(InputError, match="an observed site in a plate of 4 rows"):
        WeighRowsMessenger(torch.ones(4), observes=True)(model)(torch.randn(4))
    WeighRowsMessenger(torch.ones(4))(model)(torch.randn(4))  # as a guide may be
