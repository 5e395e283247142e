"""OptionHMM as a Pyro program: sampling, minibatches, collapsing and bounds."""

import math

import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Predictive, Trace_ELBO, TraceGraph_ELBO
from support.episodes import make_episodes
from support.option_models import make_model
from support.paths import enumerate_paths
from torch.testing import assert_close

from pyro_options.guides import Exact, Relaxed, ScoreFunction, UniformWeights, weights_guide
from pyro_options.handlers import collapse, temper
from pyro_options.models import OptionHMM
from pyro_options.options import GaussianPolicy, OptionPath, PathEncoder, Termination

PRIORS = ["gem", "truncated", "uniform"]


@pytest.mark.parametrize("prior", PRIORS)
def test_predictive_draws_actions(prior):
    episodes, model = make_episodes(), make_model(prior)
    drawn = Predictive(model, num_samples=7)(episodes.without_actions())
    assert drawn["actions"].shape == (7, 6, 5) and drawn["path"].shape == (7, 6, 5, 4)
    assert set(drawn["actions"].unique().tolist()) <= {0, 1, 2, 3}
    assert_close(drawn["path"][..., 1:].sum(-1), torch.ones(7, 6, 5))


def test_predictive_with_a_guide_uses_its_sticks():
    episodes, model, guide = make_episodes(), make_model(), Exact(weights_guide("gem", 3))
    with torch.no_grad():
        guide.weights.log_b.fill_(-8.0)  # the first option takes everything
    drawn = Predictive(model, guide=guide, num_samples=5)(episodes.without_actions())
    assert (drawn["path"][..., 1] == 1).all()


def test_gaussian_actions_are_drawn():
    model = OptionHMM(GaussianPolicy(3, 2, 2), Termination(3, 2))
    assert model(make_episodes().without_actions()).shape == (6, 5, 2)


@pytest.mark.parametrize("prior", PRIORS)
def test_a_minibatch_is_scaled_to_its_population(prior):
    episodes, model = make_episodes(8), make_model(prior)
    sticks = {"sticks": torch.zeros(3 - (prior == "truncated"))} if prior != "uniform" else {}
    exact = poutine.condition(collapse(model), data=sticks)

    def log_likelihood(batch):
        return poutine.trace(exact).get_trace(batch).nodes["actions"]

    whole = log_likelihood(episodes)
    whole_sum = poutine.trace(exact).get_trace(episodes)
    whole_sum.compute_log_prob()
    parts = []
    for batch in episodes.minibatches(2):
        trace = poutine.trace(exact).get_trace(batch)
        trace.compute_log_prob()
        parts.append(trace.nodes["actions"]["log_prob_sum"])
        assert trace.nodes["actions"]["scale"] == 4.0
    assert whole["scale"] == 1.0
    assert_close(torch.stack(parts).mean(), whole_sum.nodes["actions"]["log_prob_sum"])


def test_collapse_hides_the_path_and_gives_its_marginal():
    episodes, model = make_episodes(), make_model("uniform")
    trace = poutine.trace(collapse(model)).get_trace(episodes)
    trace.compute_log_prob()
    assert "path" not in trace.nodes
    path = model.path(torch.full((3,), -math.log(3)), episodes)
    emission = model.policy(episodes.states).component_log_prob(episodes.actions)
    assert_close(trace.nodes["actions"]["log_prob"], path.log_marginal(emission))


def test_collapsed_model_still_draws_actions():
    assert collapse(make_model())(make_episodes().without_actions()).shape == (6, 5)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", ["exact", "paper", "score"])
def test_pyros_svi_trains_every_parameter(name, prior):
    """Pyro's SVI, optimizer and default param store; no part of our training loop."""
    pyro.clear_param_store()
    torch.manual_seed(0)
    episodes, model, weights = make_episodes(), make_model(prior), weights_guide(prior, 3)
    if name == "exact":
        guide, fn = Exact(weights), collapse(model)
    else:
        guide, fn = (Relaxed if name == "paper" else ScoreFunction)(weights, PathEncoder(3 + 4, 3)), model
    svi = SVI(fn, guide, pyro.optim.Adam({"lr": 0.01}), TraceGraph_ELBO())
    before = [p.clone() for p in [*model.parameters(), *guide.parameters()]]
    losses = [svi.step(episodes) for _ in range(5)]
    assert all(map(math.isfinite, losses))
    for old, new in zip(before, [*model.parameters(), *guide.parameters()]):
        assert not torch.equal(old, new)
    pyro.clear_param_store()


@pytest.mark.parametrize("elbo", [Trace_ELBO, TraceGraph_ELBO])
def test_exact_bound_is_the_likelihood_when_nothing_is_uncertain(elbo):
    episodes, model = make_episodes(), make_model("uniform")
    loss = elbo().loss(collapse(model), Exact(UniformWeights(3)), episodes)
    path = model.path(torch.full((3,), -math.log(3)), episodes)
    emission = model.policy(episodes.states).component_log_prob(episodes.actions)
    assert loss == pytest.approx(-float(path.log_marginal(emission).detach().sum()), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("guide_class", [Relaxed, ScoreFunction])
def test_elbo_stays_below_the_log_marginal_after_training(guide_class):
    """Discrete samples from a trained encoder: their ELBO may not beat the exact marginal, and should come close."""
    torch.manual_seed(0)
    episodes, model = make_episodes(32, 4), make_model("uniform", num_options=2)
    guide = guide_class(UniformWeights(2), PathEncoder(3 + 4, 2))
    parameters = [*model.parameters(), *guide.parameters()]
    optimizer, elbo = torch.optim.Adam(parameters, 0.01), TraceGraph_ELBO()
    for step in range(600):
        optimizer.zero_grad()
        with pyro.get_param_store().scope():
            elbo.loss_and_grads(model, temper(guide, max(0.1, 0.99**step)), episodes)
        optimizer.step()
    discrete = ScoreFunction(guide.weights, guide.encoder)
    with torch.no_grad(), pyro.get_param_store().scope():
        samples = torch.tensor([-elbo.loss(model, discrete, episodes) for _ in range(400)])
        path = model.path(guide.weights.mean_log_weights(), episodes)
        exact = float(path.log_marginal(model.policy(episodes.states).component_log_prob(episodes.actions)).sum())
    error = float(samples.std()) / math.sqrt(len(samples))
    assert samples.isfinite().all()
    assert float(samples.mean()) <= exact + 3 * error
    assert float(samples.mean()) >= exact - 0.25 * abs(exact)


def test_the_gradient_of_the_bound_is_the_expectation_gradient_of_ddo():
    """Fox et al. (2017): posterior expectations, here by brute force, of the gradient of the joint."""
    torch.set_default_dtype(torch.float64)
    try:
        episodes = make_episodes(1, num_steps=3).to(dtype=torch.float64)
        length = int(episodes.lengths[0])
        model, guide = make_model("uniform", num_options=2), Exact(UniformWeights(2))
        parameters = list(model.parameters())
        with pyro.get_param_store().scope():
            TraceGraph_ELBO().loss_and_grads(collapse(model), guide, episodes)
    finally:
        torch.set_default_dtype(torch.float32)
    gradients = [p.grad.clone() for p in parameters]
    path = model.path(guide.weights.mean_log_weights(), episodes)
    emission = model.policy(episodes.states).component_log_prob(episodes.actions)
    logits = path.termination_logits[0, :length]
    every = enumerate_paths(path.log_weights.detach(), logits.detach(), emission[0, :length].detach())
    assert length > 1 and len(every.joint) == 4**length
    values = every.values(2)
    log_path = OptionPath(path.log_weights, logits).log_prob(values)
    log_actions = (values[..., 1:] * emission[0, :length]).sum((-1, -2))
    expected = torch.autograd.grad(-(every.posterior * (log_path + log_actions)).sum(), parameters)
    for gradient, one in zip(gradients, expected):
        assert_close(gradient, one)
