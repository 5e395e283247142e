"""Changing the number of components: when (rules), how (births, removals), and the change of shapes (resizing)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
