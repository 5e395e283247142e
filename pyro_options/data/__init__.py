"""Demonstrations and where they come from."""

from .bits import pack_bits, unpack_bits
from .collect import Rollouts, collect, rollout
from .minari import from_minari, to_minari
from .npz import from_npz
from .policies import load_policy
from .synthetic import Synthetic, synthetic_options
from .trajectories import Trajectories

__all__ = [
    "Rollouts",
    "Synthetic",
    "Trajectories",
    "collect",
    "from_minari",
    "from_npz",
    "load_policy",
    "pack_bits",
    "rollout",
    "synthetic_options",
    "to_minari",
    "unpack_bits",
]
