"""Mixture components with conjugate posteriors, and growth moves that are accepted by the evidence lower bound."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
