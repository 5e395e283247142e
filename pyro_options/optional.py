"""Dependencies that only some features need."""

import importlib
from types import ModuleType


def require(module: str, extra: str) -> ModuleType:
    """Imports ``module``, or says which extra of this package brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'Expected {module} to be installed but got "{error}". Run: pip install "pyro-options[{extra}]"'
        ) from error
