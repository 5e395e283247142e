"""Demonstrations and where they come from."""

from .bits import pack_bits, unpack_bits
from .npz import from_npz
from .trajectories import Trajectories

__all__ = ["Trajectories", "from_npz", "pack_bits", "unpack_bits"]
