from .checkpoint import Checkpoint
from .interrupt import explained_interrupts, postponing_interrupts
from .resumable import ResumableLoop

__all__ = [
    "Checkpoint",
    "ResumableLoop",
    "explained_interrupts",
    "postponing_interrupts",
]
