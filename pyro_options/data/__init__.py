"""Demonstrations and where they come from. What needs gymnasium is imported when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING

from .bits import pack_bits, unpack_bits
from .integers import Integers, integer_sequences
from .npz import from_npz
from .synthetic import Synthetic, synthetic_options
from .trajectories import Trajectories

if TYPE_CHECKING:
    from .collection import Rollouts, collect, rollout
    from .minari import from_minari, to_minari
    from .policies import load_policy

__all__ = [
    "Integers",
    "Rollouts",
    "Synthetic",
    "Trajectories",
    "collect",
    "from_minari",
    "from_npz",
    "integer_sequences",
    "load_policy",
    "pack_bits",
    "rollout",
    "synthetic_options",
    "to_minari",
    "unpack_bits",
]

_LATER = {
    "Rollouts": "collection",
    "collect": "collection",
    "rollout": "collection",
    "from_minari": "minari",
    "to_minari": "minari",
    "load_policy": "policies",
}


def __getattr__(name: str):
    if name in _LATER:
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
