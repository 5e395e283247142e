"""Stick distributions in logit space against torch, quadrature and Monte Carlo; stick breaking."""

import math

import pytest
import torch
from pyro.distributions.testing.gof import auto_goodness_of_fit
from support.paths import P_VALUE
from torch.distributions import Beta, Kumaraswamy, kl_divergence
from torch.testing import assert_close

from pyro_options.distributions import LogitBeta, LogitKumaraswamy, gem_sticks, kl_kumaraswamy_beta, log_stick_breaking

STICKS = [(LogitKumaraswamy, Kumaraswamy), (LogitBeta, Beta)]
MODERATE = [0.3, 1.0, 2.5]
families = pytest.mark.parametrize("family", [LogitKumaraswamy, LogitBeta])


def grid(*values, dtype=torch.float64):
    """Every pair (a, b) of the values, each ``(n^2,)``."""
    a, b = torch.meshgrid(torch.tensor(values, dtype=dtype), torch.tensor(values, dtype=dtype), indexing="ij")
    return a.flatten(), b.flatten()


def extremes(dtype=torch.float32):
    return grid(1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, dtype=dtype)


def tensors(*values):
    return [torch.tensor(value, dtype=torch.float64) for value in values]


def integrate(function):
    x = torch.linspace(-200, 200, 80_001, dtype=torch.float64)[:, None]
    return torch.trapezoid(function(x), x, dim=0)


@families
def test_everything_is_finite_in_float32_over_six_decades(family):
    a, b = (value.requires_grad_() for value in extremes())
    sticks = family(a, b)
    x = sticks.rsample((2000,))
    log_prob = sticks.log_prob(x)
    sample_gradients = torch.autograd.grad(x.sum(), (a, b), retain_graph=True)
    for tensor in (x, log_prob, *sample_gradients, *torch.autograd.grad(log_prob.sum(), (a, b, x))):
        assert tensor.dtype == torch.float32
        assert tensor.isfinite().all()


@families
def test_density_is_finite_at_extreme_logits(family):
    x = torch.tensor([-1e4, -100.0, 0.0, 100.0, 1e4]).requires_grad_()
    log_prob = family(*(value[:, None] for value in extremes())).log_prob(x)
    assert log_prob.isfinite().all()
    assert torch.autograd.grad(log_prob.sum(), x)[0].isfinite().all()


@pytest.mark.parametrize("family, reference", STICKS)
def test_density_is_torchs_after_a_change_of_variables(family, reference):
    a, b = grid(*MODERATE)
    x = torch.linspace(-5, 5, 41, dtype=torch.float64)[:, None]
    v = torch.sigmoid(x)
    assert_close(family(a, b).log_prob(x), reference(a, b).log_prob(v) + v.log() + (1 - v).log(), rtol=1e-9, atol=1e-9)


@families
def test_density_integrates_to_one(family):
    a, b = grid(*MODERATE)
    assert_close(integrate(lambda x: family(a, b).log_prob(x).exp()), torch.ones_like(a), rtol=0, atol=1e-8)


@pytest.mark.parametrize("a", MODERATE)
@pytest.mark.parametrize("b", MODERATE)
@families
def test_samples_follow_the_density(family, a, b):
    sticks = family(*tensors(a, b))
    x = sticks.sample((20_000,))
    assert auto_goodness_of_fit(x, sticks.log_prob(x).exp()) > P_VALUE


@families
@pytest.mark.parametrize("a, b", [(0.01, 1.0), (1.0, 0.01), (0.02, 0.02)])
def test_samples_follow_the_density_where_the_stick_itself_rounds_to_zero_or_one(family, a, b):
    sticks = family(torch.tensor(a), torch.tensor(b))
    x = sticks.sample((20_000,))
    assert (x.abs() > 100).any()
    assert auto_goodness_of_fit(x, sticks.log_prob(x).exp()) > P_VALUE


@families
def test_pathwise_gradient_is_that_of_the_expectation(family):
    """Samples move with their parameters: E[grad x] equals the gradient of the integral of x p(x)."""
    a, b = (value.requires_grad_() for value in grid(0.7, 2.0))
    x = family(a, b).rsample((40_000,))
    expected = torch.autograd.grad(integrate(lambda y: y * family(a, b).log_prob(y).exp()).sum(), (a, b))
    for actual, gradient in zip(torch.autograd.grad(x.mean(0).sum(), (a, b)), expected):
        assert_close(actual, gradient, rtol=0.05, atol=0.02)


def test_mean_stick_equals_quadrature_and_monte_carlo():
    sticks = LogitKumaraswamy(*grid(*MODERATE))
    assert_close(sticks.mean_stick, integrate(lambda x: torch.sigmoid(x) * sticks.log_prob(x).exp()), rtol=1e-8, atol=0)
    v = torch.sigmoid(sticks.sample((10_000,)))
    assert ((v.mean(0) - sticks.mean_stick).abs() < 4 * v.std(0) / 100).all()


@pytest.mark.parametrize("log_a, log_b", [(0.0, 6.9), (2.0, 12.0), (2.5, 15.0), (3.2, 30.0)])
def test_mean_stick_of_a_sharp_posterior_is_right_in_float32(log_a, log_b):
    """For b this large v^a is Exp(1) / b, whose moments are gamma functions; training on much data gets there."""
    a = math.exp(log_a)
    expected = torch.tensor(math.exp(math.lgamma(1 + 1 / a) - log_b / a))
    actual = LogitKumaraswamy(torch.tensor(log_a).exp(), torch.tensor(log_b).exp()).mean_stick
    assert_close(actual, expected, rtol=2e-3, atol=0)


def test_mean_stick_in_float32_agrees_with_float64():
    actual, expected = (LogitKumaraswamy(*extremes(dtype)).mean_stick for dtype in (torch.float32, torch.float64))
    assert_close(actual.double(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("alpha", MODERATE)
@pytest.mark.parametrize("concentration", [0.1, 0.5, 1.0, 3.0, 20.0])
def test_divergence_is_exact_where_a_kumaraswamy_is_a_beta(concentration, alpha):
    one, c, alpha = tensors(1.0, concentration, alpha)
    for q in [(one, c), (c, one)]:
        for p in [(one, alpha), (alpha, alpha + 1)]:
            actual = kl_divergence(LogitKumaraswamy(*q), LogitBeta(*p))
            assert_close(actual, kl_divergence(Beta(*q), Beta(*p)), rtol=1e-8, atol=1e-8)


def test_divergence_is_not_the_biased_series():
    q, p = LogitKumaraswamy(*tensors(1.0, 0.5)), LogitBeta(*tensors(1.0, 5.0))
    exact = math.log(0.5 / 5) + (5 - 0.5) / 0.5
    assert exact == pytest.approx(6.697, abs=1e-3)
    assert kl_kumaraswamy_beta(q, p).item() == pytest.approx(exact, abs=1e-8)


def test_divergence_agrees_with_monte_carlo():
    q, p = LogitKumaraswamy(*grid(0.2, 0.8, 3.0, 12.0)), LogitBeta(*tensors(1.0, 2.5))
    x = q.sample((20_000,))
    log_ratio = q.log_prob(x) - p.log_prob(x)
    assert ((log_ratio.mean(0) - kl_divergence(q, p)).abs() < 4 * log_ratio.std(0) / math.sqrt(20_000)).all()


def test_divergence_of_whole_events_sums_over_sticks():
    a, b = grid(0.5, 2.0)
    (alpha,) = tensors(3.0)
    actual = kl_divergence(LogitKumaraswamy(a, b).to_event(1), gem_sticks(alpha, len(a)))
    assert_close(actual, kl_kumaraswamy_beta(LogitKumaraswamy(a, b), LogitBeta(torch.ones_like(alpha), alpha)).sum())


def test_divergence_and_its_gradient_are_finite_in_float32_over_six_decades():
    a, b = (value.requires_grad_() for value in extremes())
    divergence = kl_divergence(LogitKumaraswamy(a, b), LogitBeta(torch.tensor(1.0), torch.tensor(3.0)))
    expected = kl_divergence(LogitKumaraswamy(*extremes(torch.float64)), LogitBeta(*tensors(1.0, 3.0)))
    assert_close(divergence.detach().double(), expected, rtol=1e-4, atol=1e-4)
    for gradient in torch.autograd.grad(divergence.sum(), (a, b)):
        assert gradient.isfinite().all()


def test_gem_sticks_are_beta_one_alpha():
    (alpha,) = tensors(2.5)
    prior = gem_sticks(alpha, 3)
    x = torch.randn(4, 3, dtype=torch.float64)
    v = torch.sigmoid(x)
    assert prior.event_shape == (3,)
    expected = (Beta(torch.ones_like(alpha), alpha).log_prob(v) + v.log() + (1 - v).log()).sum(-1)
    assert_close(prior.log_prob(x), expected)


def test_gem_sticks_pass_gradients_to_the_concentration():
    alpha = torch.tensor(2.5, requires_grad=True)
    gem_sticks(alpha, 3).log_prob(torch.zeros(3)).backward()
    assert alpha.grad == pytest.approx(3 * (1 / 2.5 - math.log(2)))


@families
def test_expanded_sticks_keep_their_density(family):
    sticks, x = family(*tensors(0.5, 2.0)), torch.randn(3, 2).double()
    expanded = sticks.expand([3, 2])
    assert expanded.batch_shape == expanded.sample().shape == (3, 2)
    assert_close(expanded.log_prob(x), sticks.log_prob(x))


@pytest.mark.parametrize("remainder", [False, True])
def test_stick_breaking_is_the_product_of_what_is_left(remainder):
    logits = torch.randn(2, 4, dtype=torch.float64)
    for row, actual in zip(torch.sigmoid(logits), log_stick_breaking(logits, remainder).exp()):
        left, expected = 1.0, []
        for stick in row.tolist():
            expected.append(stick * left)
            left *= 1 - stick
        expected += [left] if remainder else []
        assert_close(actual, torch.tensor(expected, dtype=torch.float64))
        assert actual.sum() == pytest.approx(1.0) if remainder else actual.sum() < 1


def test_one_more_stick_leaves_the_old_weights_alone():
    logits = torch.randn(6)
    assert torch.equal(log_stick_breaking(logits)[:5], log_stick_breaking(logits[:5]))


@pytest.mark.parametrize("remainder", [False, True])
def test_stick_breaking_is_finite_at_extreme_logits(remainder):
    logits = torch.tensor([1e4, -1e4, 1e4, 0.0, -1e4]).requires_grad_()
    log_weights = log_stick_breaking(logits, remainder)
    log_weights.sum().backward()
    assert log_weights.isfinite().all()
    assert logits.grad.isfinite().all()


def test_no_sticks_leave_everything_to_the_remainder():
    assert_close(log_stick_breaking(torch.empty(0), remainder=True), torch.zeros(1))
