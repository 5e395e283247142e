"""Pyro effect handlers that sum out latents, set temperatures, regularize, observe usage, and grow."""

from .collapse import CollapseMessenger, collapse
from .entropy import EntropyMessenger, entropy_bonus, usage_entropy
from .growth import GrowthMessenger
from .observe import ObserveMessenger
from .temper import TemperMessenger, temper

__all__ = [
    "CollapseMessenger",
    "EntropyMessenger",
    "GrowthMessenger",
    "ObserveMessenger",
    "TemperMessenger",
    "collapse",
    "entropy_bonus",
    "temper",
    "usage_entropy",
]
