"""Demonstrations and where they come from."""

from .trajectories import Trajectories

__all__ = ["Trajectories"]
