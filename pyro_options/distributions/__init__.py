"""Stick-breaking weights, mixtures and functions in log space, for any mixture model."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
