from .program import main

__all__ = ["main"]
