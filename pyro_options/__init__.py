"""Discover reusable skills from demonstrations without being told how many there are.

``pyro_options.models`` holds every p, ``pyro_options.guides`` every q; :func:`pyro_options.methods.build` puts a named
pair together for given data, and :class:`pyro_options.infer.Trainer` trains it. Nothing heavy is imported until it is
used.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("pyro-options")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0"
