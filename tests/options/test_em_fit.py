"""Steps of expectation maximization: sums against autograd, regressions against brute force, and no step that harms."""

import math

import pytest
import torch
from torch.testing import assert_close

from pyro_options.options import CategoricalPolicy, GaussianPolicy, MixedPolicy, OptionPath, Termination
from pyro_options.options.em_fit import PRIOR_SCALE, can_be_fitted, fit_heads, head_sums
from pyro_options.options.families import CategoricalFamily, GaussianFamily
from pyro_options.options.gaussian_fit import censored_moments, observed_moments, ridge, weighted_sums

D, K = 3, 4
FAMILIES = (GaussianFamily(high=1.0), CategoricalFamily((-1.0, 1.0)), CategoricalFamily((0.0, 1.0, 2.0)))
BOUNDS = {"low": torch.tensor([0.5, -math.inf]), "high": torch.tensor([1.5, 0.0])}


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


def problem(kind, episodes=6, length=9):
    """Policies, terminations, states, actions and a mask with padding."""
    states = torch.randn(episodes, length, D)
    mask = torch.arange(length) < torch.randint(3, length + 1, (episodes, 1))
    if kind == "categorical":
        policy, actions = CategoricalPolicy(D, K, 3), torch.randint(3, (episodes, length))
    elif kind == "gaussian":
        policy = GaussianPolicy(D, K, 2, center=torch.tensor([1.0, -2.0]), unit=torch.tensor([0.5, 3.0]))
        actions = torch.randn(episodes, length, 2)
    elif kind == "censored":
        policy = GaussianPolicy(D, K, 2, center=torch.tensor([1.0, -2.0]), unit=torch.tensor([0.5, 3.0]), **BOUNDS)
        actions = torch.randn(episodes, length, 2).clamp(BOUNDS["low"], BOUNDS["high"])
    else:
        policy = MixedPolicy(D, K, FAMILIES)
        real = torch.randn(mask.shape).clamp(max=1.0)
        choices = (2.0 * torch.randint(2, mask.shape) - 1, 1.0 * torch.randint(3, mask.shape))
        actions = torch.stack([real, *choices], -1)
    return policy, Termination(D, K), states, actions, mask


WEIGHTS = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()


def posterior_of(policy, termination, states, actions, mask):
    path = OptionPath(WEIGHTS.double(), termination(states), mask)
    return path.posterior(policy(states, mask=mask).component_log_prob(actions))


def log_marginal(policy, termination, states, actions, mask):
    path = OptionPath(WEIGHTS.double(), termination(states), mask)
    return path.log_marginal(policy(states, mask=mask).component_log_prob(actions)).sum()


KINDS = ["categorical", "gaussian", "censored", "mixed"]


@pytest.mark.parametrize("kind", KINDS)
def test_slopes_are_the_gradient_of_the_log_likelihood(kind):
    parts = problem(kind)
    policy, termination = parts[:2]
    with torch.no_grad():
        sums = head_sums(*parts, posterior_of(*parts))
    both = (policy.heads, termination.heads)
    grads = torch.autograd.grad(log_marginal(*parts), [p for heads in both for p in (heads.weight, heads.bias)])
    real = sums.squares.shape[-1]
    expected = torch.cat([grads[0], grads[1].unsqueeze(-1)], -1)[:, real:]  # (K, C, P)
    assert_close(sums.slope.mT, expected)
    assert_close(sums.stop_slope, torch.cat([grads[2], grads[3].unsqueeze(-1)], -1).squeeze(1))


def log_prior(policy, termination, scale):
    """Log density of the parameters of all heads, up to a constant."""
    total = 0.0
    for heads in (policy.heads, termination.heads):
        total = total - heads.weight.square().sum() / (2 * (scale or PRIOR_SCALE) ** 2)
        total = total - heads.bias.square().sum() / (2 * PRIOR_SCALE**2)
    if hasattr(policy, "log_scale"):
        total = total - policy.log_scale.value.square().sum() / (2 * PRIOR_SCALE**2)
    return float(total)


@pytest.mark.parametrize("scale", [None, 0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_no_step_lowers_the_posterior_density_and_the_first_ones_raise_it(kind, scale):
    parts = problem(kind, episodes=20)
    values = []
    for _ in range(15):
        with torch.no_grad():
            values.append(float(log_marginal(*parts)) + log_prior(*parts[:2], scale))
            sums = head_sums(*parts, posterior_of(*parts))
        fit_heads(*parts[:2], sums, scale=scale)
    gains = torch.tensor(values).diff()
    assert bool((gains > -1e-9).all()) and float(gains[:3].min()) > 1e-3


def test_only_the_chosen_options_are_changed():
    parts = problem("mixed")
    policy, termination = parts[:2]
    before = [p.detach().clone() for p in (policy.heads.weight, policy.log_scale.value, termination.heads.bias)]
    with torch.no_grad():
        fit_heads(policy, termination, head_sums(*parts, posterior_of(*parts)), options=[1, 3])
    for old, new in zip(before, (policy.heads.weight, policy.log_scale.value, termination.heads.bias)):
        assert torch.equal(old[[0, 2]], new[[0, 2]]) and not torch.equal(old[[1, 3]], new[[1, 3]])


def test_moments_beyond_bounds_are_those_of_what_is_drawn_there():
    low, high, mean, log_scale = (
        torch.tensor([-0.5]),
        torch.tensor([1.0]),
        torch.tensor([[[0.2]]]),
        torch.tensor([[-0.3]]),
    )
    draws = mean.squeeze() + log_scale.exp().squeeze() * torch.randn(400_000)
    for target, tail in ((-0.5, draws[draws <= low]), (1.0, draws[draws >= high]), (0.4, torch.tensor([0.4]))):
        found = censored_moments(torch.tensor([[target]]), low, high, mean, log_scale)
        expected = tail.mean().view(1, 1, 1), tail.square().mean().view(1, 1, 1)
        assert_close(tuple(found), expected, atol=5e-3, rtol=0)


def test_moments_far_beyond_a_bound_are_finite_and_beyond_it():
    low, high, log_scale = torch.tensor([-1.0]), torch.tensor([1.0]), torch.tensor([[-5.0]])
    for mean in (-40.0, 0.0, 40.0):
        first, second = censored_moments(low.view(1, 1), low, high, torch.full((1, 1, 1), mean), log_scale)
        assert float(first) <= -1.0 + 1e-9 and float(second) >= float(first) ** 2 - 1e-6 * abs(mean) ** 2


def test_regressions_minimize_their_objective():
    n, precision = 40, torch.tensor([4.0, 0.25, 0.01])
    inputs = torch.cat([torch.randn(n, 2), torch.ones(n, 1)], -1)
    targets, weights = torch.randn(n, 2) @ torch.diag(torch.tensor([0.3, 2.0])), torch.rand(n, 3)
    w, u = ridge(weighted_sums(inputs, observed_moments(targets), weights), precision, -math.inf)

    def objective(w, u):
        left = (targets.unsqueeze(1) - torch.einsum("np,kap->nka", inputs, w)).square()
        fit = (weights.unsqueeze(-1) * (left * torch.exp(-2 * u) / 2 + u)).sum()
        return fit + (precision * w.square()).sum() / 2 + precision[-1] * u.square().sum() / 2

    w, u = w.clone().requires_grad_(), u.clone().requires_grad_()
    slopes = torch.autograd.grad(objective(w, u), (w, u))
    assert max(float(one.abs().max()) for one in slopes) < 1e-2  # they are fitted in turn, a few times
    floor = ridge(weighted_sums(inputs, observed_moments(torch.zeros(n, 1)), weights), precision, -4.0)[1]
    assert_close(floor, torch.full((3, 1), -4.0))


def test_networks_logits_alone_saturated_actions_and_many_inputs_are_left_to_gradients():
    termination = Termination(D, K)
    assert can_be_fitted(GaussianPolicy(D, K, 1), termination) and can_be_fitted(
        MixedPolicy(D, K, FAMILIES), termination
    )
    assert not can_be_fitted(CategoricalPolicy(D, K, 3), termination)
    assert not can_be_fitted(GaussianPolicy(D, K, 1, hidden=(8,)), termination)
    assert not can_be_fitted(GaussianPolicy(D, K, 1), Termination(D, K, hidden=(8,)))
    assert can_be_fitted(GaussianPolicy(D, K, 1, high=torch.tensor([1.0])), termination)
    assert not can_be_fitted(GaussianPolicy(500, K, 1), Termination(500, K))
