"""Skills, the result of discovery: they act, segment data, imitate the demonstrator, and are saved to a file."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
