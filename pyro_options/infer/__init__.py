"""Training: the SVI loop, its schedules, its safety net, and posterior component counts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
