from .registry import Kernels, TrackedFunction

__all__ = [
    "Kernels",
    "TrackedFunction",
]
