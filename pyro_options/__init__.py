"""Discover reusable skills from demonstrations without being told how many there are.

:func:`discover` is the one call: demonstrations in, :class:`Skills` out. ``pyro_options.models`` holds every p,
``pyro_options.guides`` every q; :func:`pyro_options.discovery.build` assembles a named pair for given data, and
:class:`pyro_options.infer.Trainer` trains it. Nothing heavy is imported until it is used.
"""

from importlib.metadata import PackageNotFoundError, version

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

try:
    __version__ = version("pyro-options")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0"
