"""The command ``pyro-options``: from a file on disk to skills, a report and segments, without writing Python."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
