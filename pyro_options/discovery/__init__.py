"""Demonstrations in, skills out: the one call, and the named methods behind it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
