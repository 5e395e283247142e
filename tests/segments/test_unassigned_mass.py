"""Segments whose skill is not among the K: samples, density and marginal of one distribution; leading dimensions."""

import itertools

import pytest
import torch
from support.paths import P_VALUE, mask_of, path_goodness_of_fit
from torch.testing import assert_close

from pyro_options.kernels.registry import KERNELS
from pyro_options.segments import PoissonBoundaries, SegmentPath, SegmentSkills

M, K, T = 3, 2, 4
MASK = mask_of((4, 2), T)
leftovers = pytest.mark.parametrize("leftover", [0.0, 0.3])


def weights_leaving(leftover):
    return torch.log((1 - leftover) * torch.tensor([0.6, 0.4], dtype=torch.float64))


@leftovers
def test_skills_are_drawn_as_they_are_scored(leftover):
    skills = SegmentSkills(weights_leaving(leftover), M)
    rows = torch.cat([torch.eye(K), torch.zeros(1, K)]).double()
    every = torch.stack([rows[list(index)] for index in itertools.product(range(K + 1), repeat=M)])
    chances = skills.log_prob(every).exp()
    assert_close(chances.sum(), torch.ones((), dtype=torch.float64))
    possible = chances > 1e-12
    assert path_goodness_of_fit(skills.sample((20_000,)), every[possible], chances[possible]) > P_VALUE
    assert (skills.normalized().sample((500,)).sum(-1) == 1).all()
    assert skills.support.check(every).all()


@leftovers
def test_the_marginal_is_the_mean_likelihood_of_samples(leftover):
    torch.manual_seed(0)
    path = SegmentPath(weights_leaving(leftover), PoissonBoundaries(1.5, M, MASK, torch.float64))
    emission = torch.randn(2, T, K, dtype=torch.float64)
    h = path.sample((40_000,))[..., 1:]
    per_step = torch.where(MASK, (h * emission.exp()).sum(-1), 1.0)
    gone = (h == 0).all(-1).all(-1)  # a skill that is not among the K, also of an empty segment
    likelihood = torch.where(gone, 0.0, per_step.prod(-1))
    error = likelihood.std(0) / len(h) ** 0.5
    assert ((likelihood.mean(0) - path.log_marginal(emission).exp()).abs() < 3 * error).all()
    assert (path.normalized().sample((500,))[..., 1:].sum(-1) == 1).all()


@pytest.mark.parametrize("road", ["compiled", "torch"])
def test_weights_of_several_particles_give_what_each_gives_alone(road, monkeypatch):
    if road == "torch":
        monkeypatch.setitem(KERNELS["segment_marginal"].__dict__, "module", None)
    torch.manual_seed(0)
    log_weights = torch.randn(5, 1, K, dtype=torch.float64).log_softmax(-1) - 0.2
    emission = torch.randn(2, T, K, dtype=torch.float64)
    ends = PoissonBoundaries(1.5, M, MASK, torch.float64)
    path = SegmentPath(log_weights, ends)
    assert path.batch_shape == (5, 2) and path.sample((3,)).shape == (3, 5, 2, T, K + 1)
    posterior, (options, value) = path.posterior(emission), path.viterbi(emission)
    for s in range(5):
        alone = SegmentPath(log_weights[s, 0], ends)
        assert_close(path.log_marginal(emission)[s], alone.log_marginal(emission))
        assert_close(posterior.options[s], alone.posterior(emission).options)
        assert_close(posterior.starts[s], alone.posterior(emission).starts)
        assert_close((options[s], value[s]), alone.viterbi(emission))
    inputs = log_weights.requires_grad_(), emission.requires_grad_()
    assert torch.autograd.gradcheck(lambda w, e: SegmentPath(w, ends).log_marginal(e), inputs)
