"""Variational posteriors: every q."""

from .amortized import Relaxed, ScoreFunction, StraightThrough
from .exact import Exact
from .gem import GrowableGEM, PointGEM, UniformWeights, weights_guide

__all__ = [
    "Exact",
    "GrowableGEM",
    "PointGEM",
    "Relaxed",
    "ScoreFunction",
    "StraightThrough",
    "UniformWeights",
    "weights_guide",
]
