"""The GEM prior beyond Beta(1, α): Pitman-Yor sticks, and a posterior over the concentration."""

import math

import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import TraceGraph_ELBO
from support.episodes import make_episodes
from torch.distributions import Beta, kl_divergence
from torch.testing import assert_close

from pyro_options.distributions import LogitKumaraswamy, gem_sticks, log_stick_breaking
from pyro_options.growth import grow, permute
from pyro_options.guides import Exact, GammaConcentration, GrowableGEM
from pyro_options.handlers import collapse
from pyro_options.models import GEM, OptionHMM
from pyro_options.options import CategoricalPolicy, Termination

ALPHA, DISCOUNT = (torch.tensor(value, dtype=torch.float64) for value in (1.3, 0.4))
K = 5
RANK = torch.arange(1, K + 1, dtype=torch.float64)


def test_a_discount_of_zero_changes_nothing():
    x = torch.randn(4, K)
    alpha = torch.tensor(1.7)
    expected = gem_sticks(alpha, K).log_prob(x)
    assert torch.equal(gem_sticks(alpha, K, torch.tensor(0.0)).log_prob(x), expected)
    torch.manual_seed(1)
    one = GEM(1.7)(K)
    torch.manual_seed(1)
    assert torch.equal(GEM(1.7, discount=0.0)(K), one)


def test_pitman_yor_density_is_that_of_beta_sticks():
    x = torch.randn(7, K, dtype=torch.float64)
    v = torch.sigmoid(x)
    expected = Beta(1 - DISCOUNT, ALPHA + RANK * DISCOUNT).log_prob(v) + v.log() + (1 - v).log()
    assert_close(gem_sticks(ALPHA, K, DISCOUNT).log_prob(x), expected.sum(-1))


def test_pitman_yor_weights_have_the_moments_of_the_process():
    """E[η_k] is the product of the sticks' means; the chance that two draws agree is Σ E[η²] = (1 - d) / (1 + α)."""
    sticks = gem_sticks(ALPHA, 400, DISCOUNT).sample((4000,))
    weights = log_stick_breaking(sticks).exp()
    mean = (1 - DISCOUNT) / (1 + ALPHA + (RANK - 1) * DISCOUNT)
    expected = mean * torch.cat([torch.ones(1).double(), torch.cumprod(1 - mean, 0)[:-1]])
    error = weights[:, :K].std(0) / 4000**0.5
    assert ((weights[:, :K].mean(0) - expected).abs() < 4 * error).all()
    agree = (weights**2).sum(-1)
    assert agree.mean().item() == pytest.approx(float((1 - DISCOUNT) / (1 + ALPHA)), abs=4 * float(agree.std()) / 63)


def test_divergence_from_pitman_yor_sticks_equals_quadrature():
    a, b = torch.rand(2, K, dtype=torch.float64) * 3 + 0.3
    q, p = LogitKumaraswamy(a, b), gem_sticks(ALPHA, K, DISCOUNT)
    x = torch.linspace(-100, 100, 40_001, dtype=torch.float64)[:, None]
    log_q, log_p = q.log_prob(x), p.base_dist.log_prob(x)
    expected = torch.trapezoid(log_q.exp() * (log_q - log_p), x, dim=0).sum()
    assert_close(kl_divergence(q.to_event(1), p), expected, rtol=1e-7, atol=0)


@pytest.mark.parametrize("remainder", [False, True])
@pytest.mark.parametrize("learn", [False, True])
def test_prior_passes_gradients_to_what_it_learns(remainder, learn):
    prior = GEM(2.0, remainder, discount=0.3, learn_discount=learn)
    trace = poutine.trace(prior).get_trace(K)
    assert trace.nodes["sticks"]["value"].shape == (K - remainder,)
    trace.log_prob_sum().backward()
    assert {name for name, _ in prior.named_parameters()} == {"log_alpha"} | ({"logit_discount"} if learn else set())
    assert all(p.grad.isfinite() and p.grad != 0 for p in prior.parameters())


def test_a_learned_discount_recovers_the_true_one():
    x = gem_sticks(ALPHA, 2000, DISCOUNT).sample((8,)).float()
    prior = GEM(1.0, discount=0.1, learn_discount=True)
    optimizer = torch.optim.Adam(prior.parameters(), lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        (-gem_sticks(prior.alpha(), 2000, prior.discount()).log_prob(x).mean() / 100).backward()
        optimizer.step()
    assert prior.discount().item() == pytest.approx(0.4, abs=0.03)


def test_growth_does_not_change_weights_or_their_prior():
    """The k-th stick's prior does not ask how many follow."""
    gem, prior = GrowableGEM(3), GEM(1.0, discount=0.5)
    before = gem.mean_log_weights().detach()
    short = gem_sticks(torch.tensor(1.0), 3, prior.discount()).base_dist
    grow([gem], 2)
    long = gem_sticks(torch.tensor(1.0), 5, prior.discount()).base_dist
    assert torch.equal(gem.mean_log_weights()[:3], before)
    assert torch.equal(long.concentration0[:3], short.concentration0)


def test_assigned_weights_are_the_mean_weights():
    gem = GrowableGEM(3)
    with torch.no_grad():
        gem.log_a.copy_(torch.tensor([0.0, 1.0, 2.0]))
    expected = torch.tensor([0.2, 0.65, 0.1])
    gem.assign(expected.log())
    assert_close(gem.mean_log_weights().exp(), expected, rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match="3 weights"):
        gem.assign(torch.zeros(2))


@pytest.mark.parametrize(
    "move", [lambda gem: gem.assign(torch.tensor([0.5, 0.4995]).log()), lambda gem: permute([gem], [1, 0])]
)
def test_a_stick_near_one_does_not_cost_hundreds_of_nats(move):
    """The last of a few components that share all the mass."""
    gem = GrowableGEM(2)
    with torch.no_grad():
        gem.log_a.copy_(torch.tensor([0.0, 7.0]))
        gem.log_b.copy_(torch.tensor([0.0, 0.0]))
    move(gem)
    prior = gem_sticks(torch.tensor(1.0), 2)
    assert kl_divergence(gem.sticks().to_event(1), prior) < 20
    assert gem.mean_log_weights().exp().sum().item() == pytest.approx(0.9995, abs=2e-4)


def step(model, guide, optimizer, *arguments, **elbo):
    optimizer.zero_grad()
    with pyro.get_param_store().scope():
        loss = TraceGraph_ELBO(**elbo).loss_and_grads(model, guide, *arguments)
    optimizer.step()
    return loss


@pytest.mark.parametrize("shape, rate, num_sticks", [(1.0, 1.0, 4), (2.0, 0.5, 12)])
def test_concentration_comes_near_its_conjugate_posterior(shape, rate, num_sticks):
    """With known sticks α ~ Gamma(a + K, b - Σ log(1 - v)), and the bound is the exact log evidence."""
    sticks = gem_sticks(torch.tensor(2.0), num_sticks).sample()
    prior, guide = GEM(alpha_prior=(shape, rate)), GammaConcentration(shape, rate)
    model = poutine.condition(lambda: prior(num_sticks), {"sticks": sticks})
    exact_shape = shape + num_sticks
    log_left = torch.nn.functional.logsigmoid(-sticks).sum().item()
    exact_rate = rate - log_left
    optimizer = torch.optim.Adam(guide.parameters(), lr=0.05)
    for epoch in range(150):
        optimizer.param_groups[0]["lr"] = 0.2 * 0.97**epoch
        loss = step(model, guide, optimizer, num_particles=100, vectorize_particles=True, max_plate_nesting=0)
    posterior = guide.distribution()
    assert posterior.mean.item() == pytest.approx(exact_shape / exact_rate, rel=0.05)
    assert posterior.stddev.item() == pytest.approx(exact_shape**0.5 / exact_rate, rel=0.1)
    evidence = (
        shape * math.log(rate) - math.lgamma(shape) + math.lgamma(exact_shape) - exact_shape * math.log(exact_rate)
    ) + torch.nn.functional.logsigmoid(sticks).sum().item()
    assert -loss == pytest.approx(evidence, abs=0.15)


def test_concentration_survives_growth_and_permutation():
    gem = GrowableGEM(2, concentration=GammaConcentration(2.0, 1.0))
    model = GEM(alpha_prior=(2.0, 1.0))
    optimizer = torch.optim.Adam(gem.parameters(), lr=0.01)
    step(lambda: model(2), gem, optimizer)
    before = gem.concentration.log_shape.item(), gem.concentration.log_mean.item()
    grow([gem], 2, optimizer)
    permute([gem], [2, 0, 3, 1], optimizer)
    assert (gem.concentration.log_shape.item(), gem.concentration.log_mean.item()) == before
    step(lambda: model(4), gem, optimizer)
    assert gem.concentration.log_shape.item() != before[0]


def test_options_take_any_prior():
    prior = GEM(discount=0.2, alpha_prior=(1.0, 1.0))
    model = OptionHMM(CategoricalPolicy(3, 3, 4), Termination(3, 3), prior)
    guide = Exact(GrowableGEM(3, concentration=GammaConcentration()))
    optimizer = torch.optim.Adam([*model.parameters(), *guide.parameters()], lr=0.01)
    before = [p.detach().clone() for p in guide.parameters()]
    step(collapse(model), guide, optimizer, make_episodes())
    assert all(not torch.equal(p, old) for p, old in zip(guide.parameters(), before))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: GEM(discount=1.0), "discount in"),
        (lambda: GEM(discount=-0.1), "discount in"),
        (lambda: GEM(learn_discount=True), "discount > 0"),
        (lambda: GEM(alpha_prior=(1.0, 0.0)), "shape and a rate"),
        (lambda: GammaConcentration(0.0), "shape and rate > 0"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
