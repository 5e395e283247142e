from .conjugate_moves import BoundMerge, BoundRule, SeedBirth
from .coordinate_ascent import Conjugate
from .count_components import BeliefMultinomial, CountComponents
from .cross_fitting import Folds, cross_fitted
from .gaussian_components import GaussianComponents
from .normal_wishart import BeliefGaussian, NormalWishart

__all__ = [
    "BeliefGaussian",
    "BeliefMultinomial",
    "BoundMerge",
    "BoundRule",
    "Conjugate",
    "CountComponents",
    "Folds",
    "GaussianComponents",
    "NormalWishart",
    "SeedBirth",
    "cross_fitted",
]
