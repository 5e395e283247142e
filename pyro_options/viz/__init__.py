"""Figures, animations and HTML reports of skills, growth and clusters, in one colour-blind safe style."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
