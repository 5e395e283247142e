"""Variational posteriors: every q."""

from .amortized import Relaxed, ScoreFunction, StraightThrough
from .compile import RelaxedSegments
from .exact import Exact
from .gem import GammaConcentration, GrowableGEM, PointGEM, UniformWeights, weights_guide
from .mixture import MixtureWeights

__all__ = [
    "Exact",
    "GammaConcentration",
    "GrowableGEM",
    "MixtureWeights",
    "PointGEM",
    "Relaxed",
    "RelaxedSegments",
    "ScoreFunction",
    "StraightThrough",
    "UniformWeights",
    "weights_guide",
]
