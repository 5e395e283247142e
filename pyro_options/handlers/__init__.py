"""Pyro effect handlers that sum out latents or their steps, set temperatures, regularize, observe usage, and grow."""

from .average_steps import AverageStepsMessenger, adapt, average_steps
from .collapse import CollapseMessenger, collapse
from .entropy import EntropyMessenger, entropy_bonus, usage_entropy
from .estimate import EstimateMessenger, estimate
from .growth import GrowthMessenger
from .observe import ObserveMessenger
from .own_draws import OwnDrawsMessenger
from .temper import TemperMessenger, temper
from .weigh_rows import WeighRowsMessenger

__all__ = [
    "AverageStepsMessenger",
    "CollapseMessenger",
    "EntropyMessenger",
    "EstimateMessenger",
    "GrowthMessenger",
    "ObserveMessenger",
    "OwnDrawsMessenger",
    "TemperMessenger",
    "WeighRowsMessenger",
    "adapt",
    "average_steps",
    "collapse",
    "entropy_bonus",
    "estimate",
    "temper",
    "usage_entropy",
]
