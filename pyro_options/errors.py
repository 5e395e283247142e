"""One way to refuse input: say what was expected, what came, and what to do."""

from typing import Any


def check(condition: bool, expected: str, got: Any, fix: str = "") -> None:
    """Raises ``ValueError("Expected … but got …. …")`` unless ``condition`` holds."""
    if not condition:
        raise ValueError(f"Expected {expected} but got {got}." + (f" {fix}" if fix else ""))


def choice(value: str, name: str, allowed) -> str:
    """``value``, if it is one of ``allowed``."""
    check(value in allowed, f"{name} to be one of {', '.join(sorted(allowed))}", repr(value))
    return value
