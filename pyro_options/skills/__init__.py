"""What discovery returns: skills to run, to ask about data, and to keep."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
