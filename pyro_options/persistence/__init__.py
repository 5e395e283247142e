"""Atomic file writes, checkpoints, and loops that can be stopped and resumed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
