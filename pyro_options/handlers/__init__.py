"""Pyro handlers, one a file: sum out, temper, regularize, observe, grow."""

from .collapse import CollapseMessenger, collapse
from .entropy import EntropyMessenger, entropy_bonus, usage_entropy
from .growth import GrowthEvent, GrowthMessenger, Move
from .observe import ObserveMessenger
from .temper import TemperMessenger, temper

__all__ = [
    "CollapseMessenger",
    "EntropyMessenger",
    "GrowthEvent",
    "GrowthMessenger",
    "Move",
    "ObserveMessenger",
    "TemperMessenger",
    "collapse",
    "entropy_bonus",
    "temper",
    "usage_entropy",
]
