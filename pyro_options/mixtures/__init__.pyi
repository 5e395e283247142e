from .conjugate_moves import BoundMerge, BoundRule, Conjugate, SeedBirth
from .count_components import BeliefMultinomial, CountComponents
from .gaussian_components import GaussianComponents
from .normal_wishart import BeliefGaussian, NormalWishart

__all__ = [
    "BeliefGaussian",
    "BeliefMultinomial",
    "BoundMerge",
    "BoundRule",
    "Conjugate",
    "CountComponents",
    "GaussianComponents",
    "NormalWishart",
    "SeedBirth",
]
