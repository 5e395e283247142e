from .registry import Kernels, TrackedFunction, keep_provenance

__all__ = [
    "Kernels",
    "TrackedFunction",
    "keep_provenance",
]
