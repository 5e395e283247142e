"""Demonstrations and where they come from."""

from .bits import pack_bits, unpack_bits
from .minari import from_minari, to_minari
from .npz import from_npz
from .trajectories import Trajectories

__all__ = ["Trajectories", "from_minari", "from_npz", "pack_bits", "to_minari", "unpack_bits"]
