from .amortized import Relaxed, ScoreFunction, StraightThrough
from .estimated import GumbelRao, ImportanceWeighted, LeaveOneOut, StickTheLanding, WakeSleep
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
    "GumbelRao",
    "ImportanceWeighted",
    "LeaveOneOut",
    "MixtureWeights",
    "PointGEM",
    "Relaxed",
    "RelaxedSegments",
    "ScoreFunction",
    "StickTheLanding",
    "StraightThrough",
    "Structured",
    "StructuredMarginal",
    "UniformWeights",
    "WakeSleep",
    "weights_guide",
]
