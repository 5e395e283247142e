"""Training: schedules, the loop that uses them, and what keeps it safe."""

from .checkpoint import Checkpoint
from .interrupt import explained_interrupts, postponing_interrupts
from .restarts import best_start, restart_seed
from .schedules import Constant, Exponential, Schedule
from .train import History, TrainConfig, Trainer, resolve_device, set_seed

__all__ = [
    "Checkpoint",
    "Constant",
    "Exponential",
    "History",
    "Schedule",
    "TrainConfig",
    "Trainer",
    "best_start",
    "explained_interrupts",
    "postponing_interrupts",
    "resolve_device",
    "restart_seed",
    "set_seed",
]
