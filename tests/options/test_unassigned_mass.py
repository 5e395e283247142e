"""Paths that may leave the K options: sample, density and marginal are those of one distribution."""

import math

import pytest
import torch
from support.paths import P_VALUE, enumerate_paths, path_goodness_of_fit, random_episodes
from torch.testing import assert_close

from pyro_options.options import OptionPath, StatePath, TiltedPath

leftovers = pytest.mark.parametrize("leftover", [0.0, 0.3])
kinds = pytest.mark.parametrize("kind", ["plain", "state", "tilted"])


def path_of_kind(kind, leftover):
    """A path distribution, its weights at each step ``(T, K)``, termination logits, and emission."""
    T, K = 3, 2
    log_weights, logits, emission = random_episodes(T, K, leftover=leftover)
    if kind == "state":
        log_weights = random_episodes(T, K, batch=(T,))[1][0].log_softmax(-1) + math.log1p(-leftover)
        return StatePath(log_weights, logits), log_weights, logits, emission
    if kind == "tilted":
        costs = torch.tensor([0.0] + [0.4] * (T - 1), dtype=torch.float64).unsqueeze(-1)
        return TiltedPath(log_weights, logits, cost=0.4), log_weights - costs, logits, emission
    return OptionPath(log_weights, logits), log_weights.expand(T, K), logits, emission


def with_one_more_option(log_weights, logits, emission):
    """All paths among the K options and one more, which has the rest of the mass, never terminates and cannot act."""
    more = torch.log1p(-log_weights.exp().sum(-1, keepdim=True).clamp(max=1 - 1e-300))
    never, impossible = torch.full_like(logits[:, :1], -torch.inf), torch.full_like(logits[:, :1], -torch.inf)
    every = enumerate_paths(
        torch.cat([log_weights, more], -1), torch.cat([logits, never], -1), torch.cat([emission, impossible], -1)
    )
    possible = every.prior > 1e-12
    return every.values(log_weights.shape[-1] + 1)[possible][..., :-1], every.prior[possible]


@leftovers
@kinds
def test_samples_follow_log_prob_which_sums_to_one(kind, leftover):
    path, *story = path_of_kind(kind, leftover)
    values, prior = with_one_more_option(*story)
    log_prob = path.log_prob(values)
    assert_close(log_prob, prior.log(), rtol=1e-9, atol=1e-9)
    assert_close(log_prob.exp().sum(), torch.ones((), dtype=torch.float64))
    assert path.support.check(values).all()
    assert path_goodness_of_fit(path.sample((20_000,)), values, prior) > P_VALUE


@leftovers
@kinds
def test_the_marginal_is_the_mean_likelihood_of_samples(kind, leftover):
    path, _, _, emission = path_of_kind(kind, leftover)
    h = path.sample((40_000,))[..., 1:]
    likelihood = torch.where((h == 0).all(-1), 0.0, (h * emission).sum(-1).exp()).prod(-1)
    error = likelihood.std() / len(likelihood) ** 0.5
    assert abs(likelihood.mean() - path.log_marginal(emission).exp()) < 3 * error


@kinds
def test_normalized_paths_never_leave_the_options(kind):
    path, *_ = path_of_kind(kind, 0.3)
    values = path.normalized().sample((2000,))
    assert (values[..., 1:].sum(-1) == 1).all()
    assert (path.sample((2000,))[..., 1:].sum(-1) == 0).any()
    log_weights = path.normalized()._step_weights()
    assert_close(torch.logsumexp(log_weights, -1), torch.zeros(log_weights.shape[:-1], dtype=torch.float64))


def test_weights_that_sum_to_one_up_to_rounding_leave_nothing():
    log_weights = torch.log_softmax(torch.randn(50), 0)
    path = OptionPath(log_weights, torch.randn(4, 50))
    unborn = torch.tensor([1.0] + [0.0] * 50).expand(1, 51)
    assert (path.sample((5000,))[..., 1:].sum(-1) == 1).all()
    assert float(OptionPath(log_weights, torch.zeros(1, 50)).log_prob(unborn)) < -80
    log_weights.requires_grad_()
    OptionPath(log_weights, torch.randn(4, 50)).log_prob(path.sample()).backward()
    assert log_weights.grad.isfinite().all()
