"""Guides with other estimates of the gradient: trained by plain SVI and by name, judged by the exact likelihood."""

import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO, TraceGraph_ELBO
from support.episodes import make_episodes
from support.option_models import make_model
from torch.testing import assert_close

from pyro_options.discovery import discover
from pyro_options.errors import InputError
from pyro_options.growth import grow, prune
from pyro_options.guides import (
    GumbelRao,
    ImportanceWeighted,
    LeaveOneOut,
    StickTheLanding,
    StraightThrough,
    UniformWeights,
    WakeSleep,
    weights_guide,
)
from pyro_options.handlers import adapt, collapse
from pyro_options.options import PathEncoder

KINDS = [GumbelRao, StickTheLanding, LeaveOneOut, ImportanceWeighted, WakeSleep]
DATA = make_episodes(12)
kinds = pytest.mark.parametrize("kind", KINDS)


def pair(kind, prior="gem", num_options=3):
    torch.manual_seed(0)
    model = make_model(prior, num_options)
    given = {"evidence": model.evidence} if kind is WakeSleep else {}
    weights = weights_guide("gem", num_options) if prior == "gem" else UniformWeights(num_options)
    return model, kind(weights, PathEncoder(3 + 4, num_options), **given)


def gradients(model, guide, data=DATA, elbo=TraceGraph_ELBO):
    for module in (model, guide):
        module.zero_grad(set_to_none=True)
    with pyro.get_param_store().scope():
        loss = elbo().loss_and_grads(adapt(model, guide), guide, data)
    named = [*model.named_parameters(), *guide.named_parameters()]
    return -loss, {name: parameter.grad for name, parameter in named}


def exact(model, guide, data=DATA):
    weights = guide.weights.mean_log_weights()
    return float(poutine.trace(collapse(model)).get_trace(data, weights).log_prob_sum().detach())


@pytest.mark.parametrize("elbo", [Trace_ELBO, TraceGraph_ELBO])
@kinds
def test_plain_svi_trains_it(kind, elbo):
    model, guide = pair(kind)
    with pyro.get_param_store().scope():
        svi = SVI(adapt(model, guide), guide, pyro.optim.Adam({"lr": 0.02}), elbo())
        before = exact(model, guide)
        for _ in range(60):
            svi.step(DATA)
    assert exact(model, guide) > before + 10


@pytest.mark.parametrize("kind", [GumbelRao, StickTheLanding, LeaveOneOut, ImportanceWeighted])
def test_its_objective_is_a_bound(kind):
    model, guide = pair(kind, "uniform")
    draws = torch.tensor([gradients(model, guide)[0] for _ in range(100)])
    assert guide.objective_is_bound if hasattr(guide, "objective_is_bound") else True
    assert float(draws.mean()) < exact(model, guide) + 3 * float(draws.std()) / 10


def test_more_paths_give_a_tighter_bound():
    model, guide = pair(ImportanceWeighted, "uniform")
    means = []
    for guide.num_paths in (2, 50):
        means.append(sum(gradients(model, guide)[0] for _ in range(30)) / 30)
    assert means[0] < means[1] < exact(model, guide)


def test_the_objective_of_wake_sleep_is_above_the_log_marginal():
    model, guide = pair(WakeSleep, "uniform")
    draws = torch.tensor([gradients(model, guide)[0] for _ in range(100)])
    assert not guide.objective_is_bound
    assert float(draws.mean()) > exact(model, guide)


def mean_gradient(model, guide, count):
    total: dict = {}
    for _ in range(count):
        for name, value in gradients(model, guide)[1].items():
            if value is not None:
                total[name] = total.get(name, 0) + value / count
    return torch.cat([value.flatten() for value in total.values()])


@pytest.mark.parametrize("kind", [GumbelRao, StickTheLanding])
def test_its_gradient_is_that_of_straight_through_on_average(kind):
    model, guide = pair(kind, "uniform")
    plain = StraightThrough(guide.weights, guide.encoder)
    torch.manual_seed(1)
    ours, theirs = mean_gradient(model, guide, 300), mean_gradient(model, plain, 300)
    similarity = torch.nn.functional.cosine_similarity(ours, theirs, dim=0)
    assert float(similarity) > 0.95
    assert_close(ours.norm(), theirs.norm(), rtol=0.2, atol=0)


@kinds
def test_it_grows(kind):
    model, guide = pair(kind)
    grow([model, guide], 2)
    prune([model, guide], [0])
    _, found = gradients(model, guide)
    assert model.num_options == 4 and all(value is None or value.isfinite().all() for value in found.values())
    assert sum(value is not None for value in found.values()) > len(found) / 2


@pytest.mark.parametrize(
    "name", ["gumbel-rao", "stick-the-landing", "leave-one-out", "importance-weighted", "wake-sleep"]
)
def test_it_is_swapped_by_name(name):
    skills = discover(DATA, guide=name, epochs=2, batch_size=6, progress=False, device="cpu")
    assert skills.metadata["method"]["guide"] == name and skills.num_options >= 1


def test_a_model_without_its_guide_is_refused():
    model, _ = pair(LeaveOneOut)
    with pytest.raises(InputError, match="an estimate for site 'path'"):
        adapt(model, pair(LeaveOneOut)[1])(DATA)
