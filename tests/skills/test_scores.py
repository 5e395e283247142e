"""Segmentation scores against libraries and brute force, and synthetic demonstrations against their own model."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from support.paths import mask_of
from torch.testing import assert_close

from pyro_options.data import synthetic_options
from pyro_options.models import OptionHMM
from pyro_options.skills import (
    BoundaryScores,
    adjusted_rand,
    boundaries,
    boundary_scores,
    found_options,
    hungarian_accuracy,
    label_scores,
)


def test_boundaries_are_changes_within_an_episode():
    options = torch.tensor([[0, 0, 1, 1, 0], [2, 2, 2, 1, 1]])
    found = boundaries(options, mask_of([5, 3], 5))
    assert found.int().tolist() == [[0, 0, 1, 0, 1], [0, 0, 0, 0, 0]]


def bits(*rows):
    return torch.tensor(rows, dtype=torch.bool)


def test_boundary_scores_by_hand():
    true, mask = bits([0, 1, 0, 0, 0, 1]), mask_of([6], 6)
    predicted = bits([0, 0, 1, 1, 0, 0])  # one is a step late, the other two steps early
    assert boundary_scores(predicted, true, mask, 0) == BoundaryScores(0, 0, 0)
    assert boundary_scores(predicted, true, mask, 1) == BoundaryScores(0.5, 0.5, 0.5)
    assert boundary_scores(predicted, true, mask, 2) == BoundaryScores(1, 1, 1)
    assert boundary_scores(bits([0, 1, 0, 0, 0, 0]), true, mask) == BoundaryScores(1, 0.5, pytest.approx(2 / 3))
    assert boundary_scores(bits([0] * 6), bits([0] * 6), mask) == BoundaryScores(1, 1, 1)
    assert boundary_scores(bits([0] * 6), true, mask) == BoundaryScores(0, 0, 0)


def test_padded_boundaries_do_not_count():
    mask = mask_of([3], 6)
    assert boundary_scores(bits([0, 1, 0, 0, 1, 0]), bits([0, 1, 0, 1, 0, 1]), mask, 0) == BoundaryScores(1, 1, 1)


def test_a_boundary_is_used_once():
    both = bits([0, 1, 1, 0]), bits([0, 1, 0, 0])
    assert boundary_scores(*both, mask_of([4], 4)) == BoundaryScores(0.5, 1, pytest.approx(2 / 3))


@pytest.mark.parametrize("tolerance", [0, 1, 2, 4])
def test_boundaries_are_matched_as_well_as_possible(tolerance):
    generator = torch.Generator().manual_seed(tolerance)
    for _ in range(50):
        predicted, true = (torch.rand(1, 30, generator=generator) < 0.3 for _ in range(2))
        times = [np.flatnonzero(row[0].numpy()) for row in (predicted, true)]
        close = csr_array(np.abs(times[0][:, None] - times[1]) <= tolerance)
        best = int((maximum_bipartite_matching(close) >= 0).sum())
        scores = boundary_scores(predicted, true, mask_of([30], 30), tolerance)
        assert scores.precision == pytest.approx(best / len(times[0]))
        assert scores.recall == pytest.approx(best / len(times[1]))


@pytest.mark.parametrize("num_predicted, num_true", [(3, 3), (4, 2), (2, 4)])
def test_accuracy_is_that_of_the_best_naming(num_predicted, num_true):
    predicted, true = torch.randint(num_predicted, (3, 8)), torch.randint(num_true, (3, 8))
    mask = mask_of([8, 5, 2], 8)
    size = max(num_predicted, num_true)
    best = max(
        (torch.tensor(naming)[predicted] == true)[mask].float().mean() for naming in itertools.permutations(range(size))
    )
    assert hungarian_accuracy(predicted, true, mask) == pytest.approx(float(best))


def test_scores_ignore_names_and_padding():
    true = torch.tensor([[0, 0, 1, 2], [2, 2, 9, 9]])
    predicted = torch.tensor([[3, 3, 0, 1], [1, 1, 0, 5]])
    scores = label_scores(predicted, true, mask_of([4, 2], 4))
    assert (scores.nmi, scores.ari, scores.accuracy) == (pytest.approx(1), 1, 1)
    assert scores.naming == {3: 0, 0: 1, 1: 2}


def test_random_labels_score_at_chance_level():
    true, predicted = torch.randint(4, (20, 100)), torch.randint(4, (20, 100))
    scores = label_scores(predicted, true, torch.ones(20, 100, dtype=torch.bool))
    assert abs(scores.ari) < 0.02 and scores.nmi < 0.02 and scores.accuracy == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x, m: label_scores(x[:1], x, m), r"predicted options of shape \(2, 3\)"),
        (lambda x, m: label_scores(x.float(), x, m), "as integers"),
        (lambda x, m: label_scores(x - 1, x, m), "options >= 0"),
        (lambda x, m: label_scores(x, x, m & False), "at least one step"),
        (lambda x, m: boundary_scores(x, x, m), "as bits"),
        (lambda x, m: boundary_scores(m, m, m, -1), "tolerance >= 0"),
        (lambda x, m: boundaries(x[:1], m), r"options of shape \(2, 3\)"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.zeros(2, 3, dtype=torch.int64), mask_of([3, 2], 3))


KINDS = {"discrete": {}, "continuous": {"num_actions": None}}


@pytest.mark.parametrize("kind", KINDS)
def test_synthetic_options_can_be_found(kind):
    truth = synthetic_options(num_episodes=60, **KINDS[kind])
    data = truth.trajectories
    assert data.discrete == (kind == "discrete") and 20 <= int(data.lengths.min()) < int(data.lengths.max()) <= 80
    assert truth.options.unique().tolist() == [0, 1, 2, 3, 4]
    best = truth.best_options()
    assert label_scores(best, truth.options, data.mask).accuracy > 0.98
    found, existing = boundaries(best, data.mask), boundaries(truth.options, data.mask)
    assert boundary_scores(found, existing, data.mask).f1 > 0.95
    assert not (existing & ~truth.switches).any() and truth.switches[:, 0].all()


def test_synthetic_options_last_as_long_as_asked():
    truth = synthetic_options(num_episodes=300, mean_duration=8.0)
    mask = truth.trajectories.mask[:, 1:]
    assert float(truth.switches[:, 1:][mask].float().mean()) == pytest.approx(1 / 8, abs=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_synthetic_options_are_those_of_an_option_model(kind):
    """The truth as an OptionHMM explains its own data better than one with the policies shuffled."""
    truth = synthetic_options(num_episodes=30, **KINDS[kind])
    data = truth.trajectories
    model = OptionHMM(truth.policy, truth.termination, "truncated")

    def log_likelihood(emission):
        return float(model.path(truth.log_weights, data).log_marginal(emission).sum()) / data.num_steps

    emission = truth.policy(data.states).component_log_prob(data.actions)
    own, shuffled = log_likelihood(emission), log_likelihood(emission[..., [1, 2, 3, 4, 0]])
    assert math.isfinite(own) and own > shuffled + 0.01


def test_synthetic_options_follow_the_seed():
    first, again, other = (synthetic_options(num_episodes=5, seed=seed).trajectories for seed in (0, 0, 1))
    assert_close(first.states, again.states)
    assert torch.equal(first.actions, again.actions) and first.states.shape != other.states.shape


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(num_options=0), "num_options >= 1"),
        (dict(lengths=(5, 3)), "shortest <= longest"),
        (dict(mean_duration=1.0), "mean_duration > 2"),
        (dict(separation=0.0), "separation > 0"),
    ],
)
def test_bad_synthetic_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        synthetic_options(**options)


@pytest.mark.parametrize(
    "predicted, found",
    [
        ([5, 5, 5, 5, 1, 1, 2, 2, 2], 3),  # named otherwise
        ([0, 0, 0, 7, 1, 1, 2, 2, 2], 3),  # more than half of each
        ([0, 0, 3, 3, 1, 1, 2, 2, 2], 2),  # only half of the first
        ([0, 0, 0, 0, 0, 0, 2, 2, 2], 2),  # two share a skill: it is the first one's, more than half of which it is
        ([0] * 9, 0),
        ([0, 0, 0, 0, 1, 1, 2, 2, 1], 3),
        ([0, 0, 0, 0, 2, 2, 2, 2, 3], 1),  # half of a skill is nobody's own
    ],
)
def test_an_option_is_found_if_it_has_a_skill_of_its_own(predicted, found):
    true = torch.tensor([[0, 0, 0, 0, 1, 1, 2, 2, 2, 0]])
    mask = torch.tensor([[True] * 9 + [False]])
    assert found_options(torch.tensor([[*predicted, 0]]), true, mask) == found


def test_a_mask_of_numbers_is_refused():
    options, mask = torch.zeros(1, 4, dtype=torch.long), torch.ones(1, 4, dtype=torch.long)
    for call in (
        lambda: boundaries(options, mask),
        lambda: boundary_scores(options > 0, options > 0, mask),
        lambda: label_scores(options, options, mask),
    ):
        with pytest.raises(ValueError, match=r"a mask of bits .*\.bool\(\)"):
            call()


def test_adjusted_rand_agrees_with_scikit_learn():
    cluster = pytest.importorskip("sklearn.metrics.cluster")
    torch.manual_seed(0)
    for _ in range(5):
        one, other = torch.randint(4, (200,)), torch.randint(3, (200,))
        other = torch.where(torch.rand(200) < 0.5, one.clamp(max=2), other)
        expected = cluster.adjusted_rand_score(one.numpy(), other.numpy())
        assert adjusted_rand(one, other) == pytest.approx(expected, abs=1e-12)
    assert adjusted_rand(one, one) == 1 and adjusted_rand(one * 0, one * 0) == 1
