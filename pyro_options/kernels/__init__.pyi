from .registry import Kernels, apply_tracked

__all__ = [
    "Kernels",
    "apply_tracked",
]
