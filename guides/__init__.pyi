from .amortized import Relaxed, ScoreFunction, StraightThrough
from .exact import Exact
from .gem import GammaConcentration, GrowableGEM, PointGEM, UniformWeights, weights_guide
from .hdp import GrowableHDP
from .mixture import MixtureWeights
from .segments import RelaxedSegments
from .structured import Structured, StructuredMarginal

__all__ = [
    "Exact",
    "GammaConcentration",
    "GrowableGEM",
    "GrowableHDP",
    "MixtureWeights",
    "PointGEM",
    "Relaxed",
    "RelaxedSegments",
    "ScoreFunction",
    "StraightThrough",
    "Structured",
    "StructuredMarginal",
    "UniformWeights",
    "weights_guide",
]
