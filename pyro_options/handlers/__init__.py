"""Pyro handlers, one a file: sum out, temper, regularize, observe, grow."""

from .collapse import CollapseMessenger, collapse
from .entropy import EntropyMessenger, entropy_bonus, usage_entropy
from .observe import ObserveMessenger, Usage
from .temper import TemperMessenger, temper

__all__ = [
    "CollapseMessenger",
    "EntropyMessenger",
    "GrowthEvent",
    "GrowthMessenger",
    "ObserveMessenger",
    "TemperMessenger",
    "Usage",
    "collapse",
    "entropy_bonus",
    "temper",
    "usage_entropy",
]


def __getattr__(name):
    # Growth imports the rules, which read what the observer here defines.
    if name in ("GrowthEvent", "GrowthMessenger"):
        from . import growth

        return getattr(growth, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
