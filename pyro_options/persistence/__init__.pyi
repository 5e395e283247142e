from .checkpoint import Checkpoint
from .interrupt import explained_interrupts, postponing_interrupts

__all__ = [
    "Checkpoint",
    "explained_interrupts",
    "postponing_interrupts",
]
