"""One way to refuse input: say what was expected, what came, and what to do. And one family of exceptions."""

import importlib
from numbers import Integral
from types import ModuleType
from typing import Any


class PyroOptionsError(Exception):
    """Everything that this library raises on purpose."""


class InputError(PyroOptionsError, ValueError):
    """Data, numbers or settings that cannot be right."""


class FileError(InputError):
    """A file that is damaged, or is not what it should be."""


class NumericalError(PyroOptionsError, FloatingPointError):
    """A number that stopped being one while training.

    :param where: what is not finite: a site, a parameter or its gradient
    :param step: optimizer steps before it
    :param epoch: passes over the data before it
    :param batch: number of the batch in its epoch
    """

    def __init__(self, message: str, where: str = "", step: int = 0, epoch: int = 0, batch: int = 0):
        super().__init__(message)
        self.where, self.step, self.epoch, self.batch = where, step, epoch, batch


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after everything was saved; the message says how to go on."""


def check(condition: bool, expected: str, got: Any, fix: str = "", error: type[InputError] = InputError) -> None:
    """Raises ``InputError("Expected … but got …. …")``, which is a ``ValueError``, unless ``condition`` holds."""
    if not condition:
        raise error(f"Expected {expected} but got {got}." + (f" {fix}" if fix else ""))


def check_count(value: Any, name: str, least: int = 1) -> None:
    """Raises unless ``value`` is a whole number, ``least`` or more."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    check(whole and value >= least, f"{name} >= {least}, a whole number,", repr(value))


def choice(value: str, name: str, allowed) -> str:
    """``value``, if it is one of ``allowed``."""
    check(value in allowed, f"{name} to be one of {', '.join(sorted(allowed))}", repr(value))
    return value


def require(module: str, extra: str) -> ModuleType:
    """Imports ``module``, or says which extra of this package brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'Expected {module} to be installed but got "{error}". Run: pip install "pyro-options[{extra}]"'
        ) from error
