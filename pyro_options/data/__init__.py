"""Demonstrations: the container, readers and writers, recording in environments, and synthetic data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
