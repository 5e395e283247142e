"""Mixtures: the distribution, posteriors of components against exact conjugate results, the model."""

import math
from itertools import pairwise

import pytest
import torch
from pyro import poutine
from pyro.distributions.testing.gof import multinomial_goodness_of_fit
from support.mixture_parts import COVARIANCES, clusters, gaussians
from torch.distributions import Chi2, Dirichlet, MultivariateNormal, Normal, Wishart, kl_divergence
from torch.testing import assert_close

from pyro_options.distributions import Mixture
from pyro_options.guides import GrowableGEM, MixtureWeights
from pyro_options.infer import MixtureConfig
from pyro_options.mixtures import CountComponents, GaussianComponents, NormalWishart
from pyro_options.mixtures.conjugate_moves import ascend
from pyro_options.models import DPMixture


def random_belief(size=3, batch=()):
    return NormalWishart(
        torch.randn(*batch, size).double(),
        torch.randn(*batch, size).double() / 2,
        torch.randn(*batch, size, size).double(),
        torch.rand(batch).double() * 5 + 0.5,
        torch.rand(batch).double() * 5 + size + 2,
    )


def draw(belief, number):
    """Means and precisions from a belief."""
    R = belief.factor
    chol = torch.linalg.inv(torch.linalg.cholesky(torch.linalg.inv(R.mT @ R / belief.nu))).mT  # of W, in Bartlett's way
    order = torch.arange(belief.size)
    bartlett = torch.tril(torch.randn(number, belief.size, belief.size).double(), -1)
    bartlett = bartlett + torch.diag_embed(Chi2(belief.nu - order).sample((number,)).sqrt())
    precision = chol @ bartlett @ bartlett.mT @ chol.mT
    return MultivariateNormal(belief.loc, precision_matrix=belief.kappa * precision).sample(), precision


def test_mixture_is_the_sum_over_components():
    log_weights = torch.tensor([0.2, 0.5, 0.1]).log()
    components = Normal(torch.tensor([0.0, 2.0, -1.0]), torch.tensor([1.0, 0.5, 2.0]))
    x = torch.randn(7)
    mixture = Mixture(log_weights, components).expand([7])
    expected = sum(w * Normal(m, s).log_prob(x).exp() for w, m, s in zip([0.2, 0.5, 0.1], [0, 2, -1], [1, 0.5, 2]))
    assert mixture.batch_shape == (7,) and mixture.num_components == 3
    assert_close(mixture.log_prob(x), expected.log())
    assert_close(mixture.responsibilities(x).sum(-1), torch.ones(7))
    joint = log_weights + components.log_prob(x.unsqueeze(-1))
    assert_close(mixture.responsibilities(x), (joint - expected.log().unsqueeze(-1)).exp())


def test_mixture_draws_components_by_weight():
    mixture = Mixture(torch.tensor([0.2, 0.5, 0.1]).log(), Normal(torch.tensor([0.0, 100.0, 200.0]), torch.ones(3)))
    rows = mixture.expand([50]).sample((100,))
    assert rows.shape == (100, 50)
    counts = torch.bincount((rows.flatten() / 100).round().long(), minlength=3).double()
    assert multinomial_goodness_of_fit(torch.tensor([0.25, 0.625, 0.125]).double(), counts, total_count=5000) > 1e-4


def test_expected_and_predictive_densities_are_averages_over_the_belief():
    belief, x = random_belief(), torch.randn(5, 3).double()
    loc, precision = draw(belief, 20_000)
    log_prob = MultivariateNormal(loc.unsqueeze(1), precision_matrix=precision.unsqueeze(1)).log_prob(x)  # (S, 5)
    error = log_prob.std(0) / 20_000**0.5
    assert ((log_prob.mean(0) - belief.expected_log_prob(x)).abs() < 4 * error).all()
    error = log_prob.exp().std(0) / 20_000**0.5
    assert ((log_prob.exp().mean(0) - belief.predictive_log_prob(x).exp()).abs() < 4 * error).all()


def test_predictive_density_integrates_to_one():
    belief = random_belief(1)
    x = torch.sinh(torch.linspace(-14, 14, 20_001).double()).unsqueeze(-1)
    assert torch.trapezoid(belief.predictive_log_prob(x).exp(), x.squeeze(-1)).item() == pytest.approx(1, abs=1e-5)


def test_divergence_of_beliefs_equals_monte_carlo():
    belief, prior = random_belief(), random_belief()
    loc, precision = draw(belief, 20_000)

    def log_prob(p):
        gaussian = MultivariateNormal(p.loc, precision_matrix=p.kappa * precision).log_prob(loc)
        return gaussian + Wishart(p.nu, p.factor.mT @ p.factor / p.nu).log_prob(precision)

    ratio = log_prob(belief) - log_prob(prior)
    assert (ratio.mean() - belief.divergence(prior)).abs() < 4 * ratio.std() / 20_000**0.5
    assert belief.divergence(belief).abs() < 1e-10


def exact_evidence(rows, precision, kappa, nu):
    """Marginal likelihood of standardized rows ``(N, D)`` under the normal-Wishart prior, in closed form."""
    (N, D), mean = rows.shape, rows.mean(0)
    centred, scatter = rows - mean, nu * torch.linalg.inv(precision)
    total = scatter + centred.T @ centred + kappa * N / (kappa + N) * torch.outer(mean, mean)
    gammas = torch.mvlgamma((nu + N) / 2, D) - torch.mvlgamma(nu / 2, D)
    dets = nu / 2 * torch.logdet(scatter) - (nu + N) / 2 * torch.logdet(total)
    return gammas + dets + D / 2 * torch.log(kappa / (kappa + N)) - N * D / 2 * math.log(math.pi)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_absorbing_all_rows_makes_the_bound_exact(covariance):
    """One component: the belief is the conjugate posterior, and the bound the log evidence itself."""
    rows, _ = clusters(2, 40, 3, dtype=torch.float64)
    components = gaussians(rows, 1, covariance)
    components.absorb(rows, torch.ones(len(rows), 1).double())
    bound = components().log_prob(rows.unsqueeze(-2)).sum() - components.divergence().sum()
    standard = (rows - rows.mean(0)) / rows.std(0)
    blocks = [standard] if covariance == "full" else list(standard.split(1, -1))
    prior = components.prior()
    precisions, kappa, nu = prior.factor[0].mT @ prior.factor[0], prior.kappa[0, 0], prior.nu[0, 0]
    exact = sum(exact_evidence(block, precision, kappa, nu) for block, precision in zip(blocks, precisions))
    assert_close(bound, exact - len(rows) * rows.std(0).log().sum())


@pytest.mark.parametrize("family", [*COVARIANCES, "counts"])
def test_the_learned_prior_minimizes_the_divergence(family):
    rows, labels = clusters(4, 80, 3, dtype=torch.float64)
    components = CountComponents(3, 4).double() if family == "counts" else gaussians(rows, 4, family)
    data = rows.abs() if family == "counts" else rows * (1 + 0.2 * labels.unsqueeze(-1))  # same shapes: ν is infinite
    components.absorb(data, torch.nn.functional.one_hot(labels, 4).double())
    cost = cost_of_prior(components)
    components.learn_prior()
    least = cost()
    for name in components.shared:
        parameter = getattr(components, name)
        for step in (-0.05, 0.05):
            parameter.data += step
            assert cost() > least or parameter.shape[-2:] == (1, 1), name  # one by one, nothing is above the diagonal
            parameter.data -= step


def cost_of_prior(components):
    """The divergence of the beliefs that there are now from the prior that there will be."""
    if isinstance(components, CountComponents):
        belief = Dirichlet(components.log_prior.exp().detach() + components.log_counts.exp().detach())
        return lambda: kl_divergence(belief, Dirichlet(components.log_prior.exp().expand(3))).sum().item()
    belief = components.belief()
    return lambda: belief.divergence(components.prior()).sum().item()


def test_ascent_never_lowers_the_bound():
    rows, labels = clusters(3, 60, dtype=torch.float64)
    components = gaussians(rows, 3)
    shares = torch.softmax(3 * torch.nn.functional.one_hot(labels, 3) + torch.randn(60, 3).double(), -1)
    bounds = []
    for _ in range(30):
        shares = ascend(components, rows, shares, 1)
        weights = shares.mean(0).log()
        bounds.append(Mixture(weights, components()).log_prob(rows).sum() - components.divergence().sum())
    assert all(later > earlier - 1e-3 for earlier, later in pairwise(bounds)) and bounds[-1] > bounds[0] + 10


def test_absorbing_maximizes_the_bound():
    rows, _ = clusters(dtype=torch.float64)
    components = gaussians(rows, 3)
    shares = torch.softmax(torch.randn(len(rows), 3).double(), -1)
    components.absorb(rows, shares)
    bound = (shares * components().log_prob(rows.unsqueeze(-2))).sum() - components.divergence().sum()
    held = [getattr(components, name) for name in components.component_axes]
    for gradient in torch.autograd.grad(bound, held):
        assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-7)


def test_absorbing_into_some_components_does_not_change_the_others():
    rows, _ = clusters()
    components = GaussianComponents(rows, 3)
    before = components.loc.detach().clone()
    components.absorb(rows, torch.rand(len(rows), 1), [1])
    assert torch.equal(components.loc[[0, 2]], before[[0, 2]]) and not torch.equal(components.loc[1], before[1])


def test_count_components_have_the_exact_evidence():
    counts = torch.randint(4, (30, 5)).double()
    components = CountComponents(5).double()
    components.absorb(counts, torch.ones(30, 1).double())
    prior, total = torch.ones(5).double(), counts.sum(0)
    orders = (torch.lgamma(counts.sum(-1) + 1) - torch.lgamma(counts + 1).sum(-1)).sum()

    def log_beta(c):
        return torch.lgamma(c).sum() - torch.lgamma(c.sum())

    bound = components().log_prob(counts.unsqueeze(-2)).sum() - components.divergence().sum()
    assert_close(bound, orders + log_beta(prior + total) - log_beta(prior))
    one = counts[:1]
    expected = orders_of(one) + log_beta(prior + total + one[0]) - log_beta(prior + total)
    assert_close(components.predictive().log_prob(one.unsqueeze(-2)).squeeze(), expected)
    belief = Dirichlet(prior + total)
    assert_close(components.divergence().squeeze(), kl_divergence(belief, Dirichlet(prior)))


def orders_of(counts):
    return (torch.lgamma(counts.sum(-1) + 1) - torch.lgamma(counts + 1).sum(-1)).squeeze()


def test_minibatches_are_scaled_to_their_population():
    rows, _ = clusters()
    model, guide = DPMixture(GaussianComponents(rows, 2)), MixtureWeights(GrowableGEM(2))
    trace = poutine.trace(guide).get_trace(rows)

    def log_prob(rows, population=None):
        return poutine.trace(poutine.replay(model, trace)).get_trace(rows, population=population).log_prob_sum()

    halves = log_prob(rows[:30], 60) + log_prob(rows[30:], 60)
    assert_close(halves / 2, log_prob(rows))


def test_the_predictive_density_of_the_mixture_integrates_to_one():
    """It integrates to one, with the mass of components not yet born."""
    rows = clusters(2, 40, 2)[0][:, :1].double()
    model = DPMixture(GaussianComponents(rows, 2).double())
    log_weights = torch.tensor([0.5, 0.2]).double().log()
    x = rows.mean() + torch.sinh(torch.linspace(-13, 13, 20_001).double())
    density = model.predictive_log_prob(x.unsqueeze(-1), log_weights).exp()
    assert torch.trapezoid(density, x).item() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: GaussianComponents(torch.randn(5)), "two rows"),
        (lambda: GaussianComponents(torch.zeros(5, 2)), "columns that vary"),
        (lambda: GaussianComponents(torch.randn(5, 2), 0), "num_components >= 1"),
        (lambda: GaussianComponents(torch.randn(5, 2), 1, "tied"), "full"),
        (lambda: CountComponents(1), "num_values >= 2"),
        (lambda: MixtureConfig(every=0), "every and patience"),
        (lambda: Mixture(torch.zeros(2), Normal(torch.zeros(3), 1.0)), "batch shape"),
        (
            lambda: DPMixture(CountComponents(2)).predictive_log_prob(torch.ones(1, 2), torch.zeros(2)),
            "at most one",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
