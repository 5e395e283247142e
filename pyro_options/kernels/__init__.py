"""Compiled kernels for the CPU, their twins for CUDA, and the registry that decides when they run."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
