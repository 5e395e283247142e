"""Summaries of few runs, against scipy and against what is known."""

import numpy as np
import pytest
from scipy.stats import norm, trim_mean

from pyro_options.experiments import bootstrap_interval, curve_band, interquartile_mean


@pytest.mark.parametrize("num_runs", [1, 3, 4, 5, 8, 13])
def test_interquartile_mean_is_the_trimmed_mean(num_runs):
    scores = np.random.default_rng(num_runs).normal(size=(6, num_runs))
    np.testing.assert_allclose(interquartile_mean(scores), trim_mean(scores, 0.25, axis=-1))


def test_interquartile_mean_by_hand():
    assert interquartile_mean([100, 1, 2, 3, -50]) == 2
    assert interquartile_mean([0, 1, 2, 3, 4, 5, 6, 1000]) == 3.5


def test_the_interval_of_a_mean_is_that_of_theory():
    scores = np.random.default_rng(0).normal(size=400)
    low, high = bootstrap_interval(scores, lambda x: x.mean(-1), num_resamples=4000)
    half = norm.ppf(0.975) * scores.std() / 20
    assert (low, high) == pytest.approx((scores.mean() - half, scores.mean() + half), abs=0.012)


def test_resampling_stays_within_tasks():
    """Two tasks without noise: whatever is drawn, the statistic is the same."""
    assert bootstrap_interval([[0.0] * 5, [1.0] * 5], lambda x: x.mean(-1)) == (0.5, 0.5)


def test_curves_meet_on_a_common_axis():
    xs, ys = [[0, 10], [0, 5, 20], [0, 10]], [[0, 10], [0, 5, 20], [0, 10]]
    band = curve_band(xs, ys, num_points=11)
    assert band.x[-1] == 10
    for values in (band.center, band.low, band.high):
        np.testing.assert_allclose(values, band.x)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="runs that overlap"):
        curve_band([[0, 1], [2, 3]], [[0, 1], [0, 1]])
    with pytest.raises(ValueError, match="confidence in"):
        bootstrap_interval([1.0], confidence=2)
    with pytest.raises(ValueError, match="finite scores"):
        interquartile_mean([1.0, 2.0, 3.0, float("nan")])
    with pytest.raises(ValueError, match="finite scores"):
        bootstrap_interval([1.0, 2.0, 3.0, float("inf")])
    with pytest.raises(ValueError, match=r"a number for each of 2000 resamples but got shape \(\)\..*axis=-1"):
        bootstrap_interval([1.0, 2.0, 3.0, 9.0], np.mean)
