"""Discover reusable skills from demonstrations without being told how many there are.

:func:`discover` is the one call: demonstrations in, :class:`Skills` out. ``pyro_options.models`` holds every p,
``pyro_options.guides`` every q; :func:`pyro_options.methods.build` puts a named pair together for given data, and
:class:`pyro_options.infer.Trainer` trains it. Nothing heavy is imported until used.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .discovery import discover
    from .skills import Skills

__all__ = ["Skills", "discover"]

try:
    __version__ = version("pyro-options")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0"

_LATER = {"discover": "discovery", "Skills": "skills"}


def __getattr__(name: str):
    if name in _LATER:
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
