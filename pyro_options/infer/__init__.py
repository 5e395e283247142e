"""Training: the SVI loop, schedules, handling of non-finite values, restarts, and posterior component counts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
