"""Estimates from discrete paths: values and gradients against enumeration of all paths, in double precision."""

import itertools

import pytest
import torch
from support.paths import enumerate_paths
from torch.testing import assert_close

from pyro_options.errors import InputError
from pyro_options.options import OptionPath, forward_kl, importance_weighted, leave_one_out
from pyro_options.options.estimators import joint_log_prob, posterior_paths
from pyro_options.options.straight_through import given_maximum

T, K = 3, 2


class Problem:
    """One episode with all its paths: log p of each path that the model allows, and a q over them with parameters φ."""

    def __init__(self, seed=0):
        generator = torch.Generator().manual_seed(seed)
        draw = {"dtype": torch.float64, "generator": generator}
        self.theta = torch.randn(T, K, **draw, requires_grad=True)  # emission
        self.prior = OptionPath(torch.log_softmax(torch.randn(K, **draw), -1), torch.randn(T, K, **draw))
        every = enumerate_paths(self.prior.log_weights, self.prior.termination_logits, self.theta.detach())
        self.paths = every.values(K)[every.prior > 0]
        self.expected = every.joint[every.prior > 0].log()
        self.phi = torch.randn(len(self.paths), **draw, requires_grad=True)

    def log_p(self):
        return joint_log_prob(self.prior.evidence(self.theta), self.paths)

    def log_q(self):
        return torch.log_softmax(self.phi, -1)

    def gradients(self, value):
        return torch.autograd.grad(value, [self.theta, self.phi], allow_unused=True)


def test_the_joint_density_of_a_path_is_that_of_the_generative_story():
    problem = Problem()
    assert_close(problem.log_p().detach(), problem.expected)
    total = torch.logsumexp(problem.log_p(), 0)
    assert_close(total, problem.prior.log_marginal(problem.theta))


def expectation(problem, estimator, count):
    """Value and gradients of an estimate, averaged over all tuples of ``count`` paths from q."""
    log_p, log_q = problem.log_p(), problem.log_q()
    tuples = torch.tensor(list(itertools.product(range(len(log_p)), repeat=count))).T  # (J, M)
    chance = log_q.detach()[tuples].sum(0).exp()
    value = (estimator(log_p[tuples], log_q[tuples]) * chance).sum()
    return value.detach(), problem.gradients(value)


def elbo(problem):
    log_p, log_q = problem.log_p(), problem.log_q()
    return (log_q.exp() * (log_p - log_q)).sum()


def importance_bound(problem):
    log_p, log_q = problem.log_p(), problem.log_q()
    pairs = torch.tensor(list(itertools.product(range(len(log_p)), repeat=2))).T
    weights = (log_p - log_q)[pairs]
    return (log_q[pairs].sum(0).exp() * (torch.logsumexp(weights, 0) - torch.log(torch.tensor(2.0)).double())).sum()


@pytest.mark.parametrize("estimator, bound", [(leave_one_out, elbo), (importance_weighted, importance_bound)])
def test_values_and_gradients_are_unbiased(estimator, bound):
    problem = Problem()
    exact = bound(problem)
    value, gradients = expectation(problem, estimator, 2)
    assert_close(value, exact.detach())
    for found, expected in zip(gradients, problem.gradients(exact)):
        assert_close(found, expected)


def test_more_paths_tighten_the_bound():
    problem = Problem()
    log_marginal = float(problem.prior.log_marginal(problem.theta.detach()))
    one, two, three = (
        float(expectation(problem, estimator, count)[0])
        for estimator, count in ((leave_one_out, 2), (importance_weighted, 2), (importance_weighted, 3))
    )
    assert one < two < three < log_marginal


def test_control_variates_leave_no_noise_where_q_is_the_posterior():
    problem = Problem()
    with torch.no_grad():
        problem.phi.copy_(problem.expected)
    log_p, log_q = problem.log_p(), problem.log_q()
    for estimator in (leave_one_out, importance_weighted):
        for pair in ([0, 3], [1, 2]):
            value = estimator(log_p[pair][:, None], log_q[pair][:, None]).sum()
            assert_close(value.detach(), problem.prior.log_marginal(problem.theta.detach()))
        advantage = problem.gradients(leave_one_out(log_p[pair][:, None], log_q[pair][:, None]).sum())[1]
        assert_close(advantage, torch.zeros_like(advantage))
        log_p, log_q = problem.log_p(), problem.log_q()


def test_forward_kl_has_the_gradients_of_the_log_marginal_and_of_the_forward_kl():
    problem = Problem()
    log_p, log_q = problem.log_p(), problem.log_q()
    posterior = torch.softmax(problem.expected, 0)
    value = (forward_kl(log_p[None], log_q[None]) * posterior).sum()
    theta, phi = problem.gradients(value)
    log_marginal = problem.prior.log_marginal(problem.theta)
    assert_close(theta, torch.autograd.grad(log_marginal, problem.theta)[0])
    kl = (posterior * (posterior.log() - problem.log_q())).sum()
    assert_close(phi, -torch.autograd.grad(kl, problem.phi)[0])
    assert_close(value.detach(), (log_marginal + kl).detach())


def test_paths_from_the_posterior_have_its_frequencies():
    problem = Problem()
    torch.manual_seed(0)
    evidence = problem.prior.evidence(problem.theta.detach()).map(lambda part: part.unsqueeze(0))
    drawn = posterior_paths(evidence, 20_000)[:, 0]
    same = (drawn.unsqueeze(1) == problem.paths).all(-1).all(-1)  # (draws, paths)
    assert bool((same.sum(1) == 1).all())
    expected = torch.softmax(problem.expected, 0)
    assert_close(same.double().mean(0), expected, atol=0.015, rtol=0)


def test_noise_given_the_largest_logit_has_the_distribution_of_all_noise():
    torch.manual_seed(0)
    logits = torch.tensor([0.3, -1.0, 1.2], dtype=torch.float64)
    gumbel = -torch.log(-torch.log(torch.rand(100_000, 3, dtype=torch.float64)))
    noisy = logits + gumbel
    for chosen in range(3):
        choice = torch.nn.functional.one_hot(torch.tensor(chosen), 3).double()
        given = given_maximum(logits, choice, 100_000)
        assert bool((given.argmax(-1) == chosen).all())
        among = noisy[noisy.argmax(-1) == chosen]
        assert_close(given.mean(0), among.mean(0), atol=0.05, rtol=0)
        assert_close(given.std(0), among.std(0), atol=0.05, rtol=0)


@pytest.mark.parametrize("estimator", [leave_one_out, importance_weighted])
def test_one_path_is_refused(estimator):
    with pytest.raises(InputError, match="at least two paths"):
        estimator(torch.zeros(1, 3), torch.zeros(1, 3))
