"""Distributions of actions given a path, and with the path summed out."""

import pytest
import torch
from pyro.distributions.testing.gof import auto_goodness_of_fit, multinomial_goodness_of_fit
from support.paths import P_VALUE, mask_of, random_episodes
from torch.distributions import Categorical, Independent, Normal
from torch.nn.functional import one_hot
from torch.testing import assert_close

from pyro_options.kernels.registry import KERNELS
from pyro_options.options import CategoricalActions, GaussianActions, MarginalActions, OptionPath, encode_path
from pyro_options.options.actions import log_choice

N, T, K, A = 3, 4, 2, 5


def categorical(mask=None):
    """The distribution, torch's reference of batch shape ``(N, T, K)``, and some actions."""
    logits = torch.randn(N, T, K, A).double()
    return CategoricalActions(logits, mask=mask), Categorical(logits=logits), torch.randint(A, (N, T))


def gaussian(mask=None):
    mean, log_scale = torch.randn(N, T, K, A).double(), torch.randn(K, A).double()
    reference = Independent(Normal(mean, log_scale.exp().expand_as(mean)), 1)
    return GaussianActions(mean, log_scale, mask=mask), reference, torch.randn(N, T, A).double()


def discrete_path():
    """Options ``(N, T)`` and their path tensor."""
    options = torch.randint(K, (N, T))
    return options, encode_path(options, torch.ones_like(options), K).double()


families = pytest.mark.parametrize("family", [categorical, gaussian])


@families
def test_component_log_prob_equals_torch_distributions(family):
    actions, reference, value = family()
    for_every_option = value.unsqueeze(2).expand(reference.sample().shape)
    assert_close(actions.component_log_prob(value), reference.log_prob(for_every_option))


@families
def test_a_discrete_path_selects_its_component(family):
    actions, _, value = family()
    options, path = discrete_path()
    selected = actions.component_log_prob(value).gather(-1, options[..., None]).squeeze(-1)
    assert_close(actions.given(path).log_prob(value), selected.sum(-1))


@families
def test_a_relaxed_path_mixes_the_components(family):
    actions, _, value = family()
    h = torch.randn(N, T, K).double().softmax(-1)
    expected = (h * actions.component_log_prob(value).exp()).sum(-1).log().sum(-1)
    assert_close(actions.given(torch.cat([torch.ones(N, T, 1), h], -1)).log_prob(value), expected)


@families
def test_padded_steps_do_not_count(family):
    lengths = (4, 2, 1)
    actions, _, value = family(mask_of(lengths, T))
    options, path = discrete_path()
    actions = actions.given(path)
    log_prob, responsibilities = actions.log_prob(value), actions.responsibilities(value)
    for i, length in enumerate(lengths):
        selected = actions.component_log_prob(value)[i, :length].gather(-1, options[i, :length, None])
        assert_close(log_prob[i], selected.sum())
        assert_close(responsibilities[i, :length], path[i, :length, 1:])
        assert (responsibilities[i, length:] == 0).all()


def test_categorical_samples_follow_the_path():
    actions, reference, _ = categorical()
    options, path = discrete_path()
    samples = actions.given(path).sample((5000,))
    assert samples.shape == (5000, N, T)
    for n in range(N):
        counts = one_hot(samples[:, n, 1], A).sum(0).double()
        assert multinomial_goodness_of_fit(reference.probs[n, 1, options[n, 1]], counts) > P_VALUE


def test_gaussian_samples_follow_the_path():
    actions, reference, _ = gaussian()
    options, path = discrete_path()
    samples = actions.given(path).sample((5000,))
    assert samples.shape == (5000, N, T, A)
    for n in range(N):
        k = options[n, 1]
        normal = Normal(reference.mean[n, 1, k], reference.base_dist.scale[n, 1, k])
        log_prob = normal.log_prob(samples[:, n, 1])
        assert auto_goodness_of_fit(samples[:, n, 1, 0], log_prob[:, 0].exp()) > P_VALUE
        assert auto_goodness_of_fit(samples[:, n, 1, -1], log_prob[:, -1].exp()) > P_VALUE


@families
def test_actions_without_a_path_still_have_components_but_no_probability(family):
    actions, _, value = family()
    assert actions.component_log_prob(value).shape == (N, T, K)
    for question in (lambda: actions.log_prob(value), actions.sample, lambda: actions.responsibilities(value)):
        with pytest.raises(ValueError, match="Expected a path tensor"):
            question()


@families
def test_marginal_actions_sum_the_path_out(family):
    mask = mask_of((4, 2, 1), T)
    actions, _, value = family(mask)
    path = OptionPath(*random_episodes(T, K, batch=(N,))[:2], mask)
    emission = actions.component_log_prob(value)
    for marginal in (MarginalActions(path, actions), path.marginalize(actions)):
        assert_close(marginal.log_prob(value), path.log_marginal(emission))
        assert_close(marginal.responsibilities(value), path.posterior(emission).options)
        assert marginal.sample((2,)).shape == (2, *value.shape)
        assert marginal.step_mask is mask


def test_marginal_samples_follow_the_marginal_probability():
    """All A^2 action sequences of a two-step episode."""
    logits, (log_weights, terminations, _) = torch.randn(2, K, 3).double(), random_episodes(2, K)
    marginal = OptionPath(log_weights, terminations).marginalize(CategoricalActions(logits))
    sequences = torch.cartesian_prod(torch.arange(3), torch.arange(3))
    probs = torch.stack([marginal.log_prob(sequence) for sequence in sequences]).exp()
    assert_close(probs.sum(), torch.tensor(1.0).double())
    samples = marginal.sample((10_000,))
    counts = one_hot(samples[:, 0] * 3 + samples[:, 1], 9).sum(0).double()
    assert multinomial_goodness_of_fit(probs, counts) > P_VALUE


@families
def test_expanded_actions_keep_their_log_prob(family):
    actions, _, value = family(mask_of((4, 2, 1), T))
    _, path = discrete_path()
    expanded = actions.given(path).expand([2, N])
    assert expanded.batch_shape == (2, N)
    assert_close(expanded.log_prob(value.expand(2, *value.shape)), actions.given(path).log_prob(value).expand(2, N))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize("num_actions", [2, 18])
def test_choices_have_the_log_probability_of_a_softmax(num_actions, compiled, dtype, monkeypatch):
    """Logits may be extreme, shared by many episodes, or exclude actions."""
    if compiled:
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr(KERNELS["log_choice"], "module", None)
    torch.manual_seed(0)
    logits = torch.randn(5, 3, num_actions, dtype=dtype, requires_grad=True)
    with torch.no_grad():
        logits[0, 0] *= 300
        logits[1, 0, 1] = -torch.inf
    actions = torch.randint(num_actions, (4, 5))
    actions[:, 1] = 0  # an action that the option excludes has probability zero and no gradient to speak of
    found = CategoricalActions(logits).component_log_prob(actions)
    expected = torch.log_softmax(logits, -1).expand(4, 5, 3, num_actions)
    expected = expected.gather(-1, actions[..., None, None].expand(4, 5, 3, 1)).squeeze(-1)
    assert_close(found, expected)
    weights = torch.linspace(-1, 2, found.numel(), dtype=dtype).view(found.shape)
    grads = [torch.autograd.grad((value * weights).sum(), logits, retain_graph=True)[0] for value in (found, expected)]
    assert_close(*grads)
    assert grads[0].isfinite().all()


def test_choices_can_be_differentiated_twice_and_by_threads(monkeypatch):
    kernel = KERNELS["log_choice"]
    monkeypatch.setattr(kernel, "thread_work", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    logits, chosen = torch.randn(4, 5, 2, 3, dtype=torch.float64, requires_grad=True), torch.randint(3, (4, 5))
    assert torch.autograd.gradcheck(lambda x: log_choice(x, chosen), logits)
    assert torch.autograd.gradgradcheck(lambda x: log_choice(x, chosen), logits)


@pytest.mark.parametrize("action", [-1, 3])
def test_actions_that_do_not_exist_are_refused(action):
    with pytest.raises(RuntimeError, match="out of bounds"):
        log_choice(torch.zeros(2, 4, 3), torch.tensor([0, action]))


def test_a_logit_that_is_not_a_number_is_not_hidden():
    logits = torch.tensor([[[0.0, torch.nan, 1.0], [0.0, 0.0, 0.0]]])
    found = log_choice(logits, torch.tensor([0]))
    assert found[0, 0].isnan() and found[0, 1].isfinite()


def censored(mean, log_scale, low=-0.5, high=0.8):
    bounds = torch.tensor([low], dtype=torch.float64), torch.tensor([high], dtype=torch.float64)
    return GaussianActions(mean, log_scale, bounds=bounds)


@pytest.mark.parametrize("mean", [-3.0, 0.1, 2.0])
@pytest.mark.parametrize("log_scale", [-1.0, 0.7])
def test_a_censored_gaussian_sums_to_one(mean, log_scale):
    """The mass at the bounds and the integral between them."""
    actions = censored(torch.full((1, 1, 1), mean).double(), torch.full((1, 1), log_scale).double())
    inside = torch.linspace(-0.5, 0.8, 20_001, dtype=torch.float64)[1:-1]
    density = torch.exp(actions.component_log_prob(inside[:, None, None])).flatten()
    mass = torch.exp(actions.component_log_prob(torch.tensor([-0.5, 0.8]).double()[:, None, None])).sum()
    assert float(torch.trapezoid(density, inside) + mass) == pytest.approx(1.0, abs=1e-3)


def test_a_censored_gaussian_is_plain_without_bounds_and_differentiable_with():
    torch.manual_seed(0)
    mean = torch.randn(4, 3, 2, dtype=torch.float64, requires_grad=True)
    log_scale = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    value = torch.randn(4, 2, dtype=torch.float64).clamp(-0.5, 0.8)
    none = torch.full((2,), torch.inf, dtype=torch.float64)
    plain = GaussianActions(mean, log_scale).component_log_prob(value)
    assert_close(GaussianActions(mean, log_scale, bounds=(-none, none)).component_log_prob(value), plain)
    half = torch.tensor([-0.5, -torch.inf], dtype=torch.float64), torch.tensor([0.8, torch.inf], dtype=torch.float64)

    def log_prob(mean, log_scale):
        return GaussianActions(mean, log_scale, bounds=half).component_log_prob(value)

    assert torch.autograd.gradcheck(log_prob, (mean, log_scale))
    far = torch.full((1, 1, 1), 60.0, dtype=torch.float64, requires_grad=True)  # the action is 60 deviations away
    found = censored(far, torch.zeros(1, 1).double()).component_log_prob(torch.full((1, 1), -0.5).double())
    assert found.isfinite().all() and torch.autograd.grad(found.sum(), far)[0].isfinite().all()


def test_samples_of_a_censored_gaussian_stay_within_bounds_and_reach_them():
    path = torch.ones(2000, 1, 2).double()
    actions = censored(torch.full((2000, 1, 1, 1), 0.5).double(), torch.zeros(1, 1).double()).given(path)
    drawn = actions.sample()
    assert float(drawn.min()) == -0.5 and float(drawn.max()) == 0.8
    share = Normal(0.5, 1.0).cdf(torch.tensor(-0.5))
    assert float((drawn == -0.5).double().mean()) == pytest.approx(float(share), abs=0.04)
