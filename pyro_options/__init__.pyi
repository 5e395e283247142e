from .discovery import discover
from .skills import Skills

__all__ = ["Skills", "discover"]
__version__: str
