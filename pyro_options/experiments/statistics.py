"""Statistics over few runs: interquartile means and bootstrap intervals (Agarwal et al., 2021)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pyro_options.errors import check

Statistic = Callable[[np.ndarray], np.ndarray]


def interquartile_mean(scores: ArrayLike) -> np.ndarray:
    """Mean without the lowest and the highest quarter (rounded down) of the last axis; less noisy than a median.

    >>> float(interquartile_mean([0, 4, 5, 100]))
    4.5
    """
    ordered = np.sort(np.asarray(scores, dtype=float), -1)
    check(ordered.shape[-1] >= 1, "at least one score", "none")
    finite = np.isfinite(ordered)  # NaN sorts to the end, as if it were the best score
    check(bool(finite.all()), "finite scores", ordered[~finite][:1], "Leave failed runs out, and say so.")
    cut = ordered.shape[-1] // 4
    return ordered[..., cut : ordered.shape[-1] - cut].mean(-1)


def bootstrap_interval(
    scores: ArrayLike,
    statistic: Statistic = interquartile_mean,
    confidence: float = 0.95,
    num_resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a statistic over runs, stratified: runs are resampled within each task.

    :param scores: ``(runs,)``, or ``(tasks, runs)`` on a common scale; the statistic is over all of them
    :param statistic: reduces the last axis, ``(resamples, scores)`` to ``(resamples,)``
    """
    table = np.atleast_2d(np.asarray(scores, dtype=float))  # (tasks, runs)
    check(0 < confidence < 1, "confidence in (0, 1)", confidence)
    rng = np.random.default_rng(seed)
    chosen = rng.integers(table.shape[1], size=(num_resamples, *table.shape))
    samples = np.take_along_axis(table[None], chosen, -1).reshape(num_resamples, -1)
    values = np.asarray(statistic(samples))
    expected, fix = f"a number for each of {num_resamples} resamples", "Take the statistic over axis=-1."
    check(values.shape == (num_resamples,), expected, f"shape {values.shape}", fix)
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


@dataclass(frozen=True)
class Band:
    """Interquartile mean and confidence interval of several curves on a common axis."""

    x: np.ndarray  # (points,)
    center: np.ndarray  # (points,) interquartile mean
    low: np.ndarray
    high: np.ndarray


def curve_band(xs: Sequence[ArrayLike], ys: Sequence[ArrayLike], num_points: int = 100, **options) -> Band:
    """Interquartile mean and bootstrap interval of several curves, at ``num_points`` points of their common range.

    :param xs: increasing x values of each run; curves are interpolated linearly
    :param ys: y values of each run
    :param options: for :func:`bootstrap_interval`
    """
    check(len(xs) == len(ys) >= 1, "as many axes as curves", (len(xs), len(ys)))
    axes, curves = [np.asarray(x, float) for x in xs], [np.asarray(y, float) for y in ys]
    for x, y in zip(axes, curves):
        fits = x.ndim == 1 and x.shape == y.shape and len(x) >= 1 and bool((np.diff(x) >= 0).all())
        check(fits, "an increasing axis and as many values for each curve", f"shapes {x.shape} and {y.shape}")
    start, stop = max(x[0] for x in axes), min(x[-1] for x in axes)
    check(start <= stop, "runs that overlap", f"{start:g} to {stop:g}")
    grid = np.linspace(start, stop, num_points)
    values = np.stack([np.interp(grid, x, y) for x, y in zip(axes, curves)], -1)  # (points, runs)
    bounds = np.array([bootstrap_interval(row, **options) for row in values])
    return Band(grid, interquartile_mean(values), bounds[:, 0], bounds[:, 1])
