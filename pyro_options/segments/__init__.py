"""CompILE: distributions of episodes that consist of segments of Poisson length, each with one skill."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
