"""The library's exceptions, and argument checks whose messages say what was expected, what was given, and the fix."""

import importlib
from numbers import Integral
from types import ModuleType
from typing import Any


class PyroOptionsError(Exception):
    """Base class of every exception that this library raises on purpose."""


class InputError(PyroOptionsError, ValueError):
    """Invalid data, arguments or settings."""


class FileError(InputError):
    """A file that is damaged, has another format, or belongs to another run."""


class NumericalError(PyroOptionsError, FloatingPointError):
    """A NaN or infinity during training.

    :param where: the non-finite site, parameter or gradient
    :param step: optimizer steps taken before the failure
    :param epoch: epochs completed before the failure
    :param batch: index of the batch within its epoch
    """

    def __init__(self, message: str, where: str = "", step: int = 0, epoch: int = 0, batch: int = 0):
        super().__init__(message)
        self.where, self.step, self.epoch, self.batch = where, step, epoch, batch


class LostProcess(PyroOptionsError, RuntimeError):
    """Another process of a data-parallel training has ended or does not answer."""


class DiscoveryWarning(UserWarning):
    """What a user should know before relying on discovered skills, see :class:`~pyro_options.skills.Trust`."""


class Interrupted(KeyboardInterrupt):
    """Raised on Ctrl-C or SIGTERM after the state was saved; the message says how to resume."""

    signal: int = 2  # SIGINT, or the number of the signal that came


def check(condition: bool, expected: str, got: Any, fix: str = "", error: type[InputError] = InputError) -> None:
    """Raises ``InputError("Expected … but got …. …")``, a ``ValueError``, unless ``condition`` holds."""
    if not condition:
        raise error(f"Expected {expected} but got {got}." + (f" {fix}" if fix else ""))


def check_count(value: Any, name: str, least: int = 1) -> None:
    """Raises unless ``value`` is an integer (not a bool) of at least ``least``."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    check(whole and value >= least, f"{name} >= {least}, a whole number,", repr(value))


def choice(value: str, name: str, allowed) -> str:
    """Returns ``value`` if it is one of ``allowed``, raises otherwise."""
    check(value in allowed, f"{name} to be one of {', '.join(sorted(allowed))}", repr(value))
    return value


def require(module: str, extra: str) -> ModuleType:
    """Imports an optional dependency; the error names the extra of this package that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'Expected {module} to be installed but got "{error}". Run: pip install "pyro-options[{extra}]"'
        ) from error
