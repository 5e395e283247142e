"""Training: schedules, and the loop that uses them."""

from .schedules import Constant, Exponential, Schedule
from .train import History, TrainConfig, Trainer, resolve_device, set_seed

__all__ = ["Constant", "Exponential", "History", "Schedule", "TrainConfig", "Trainer", "resolve_device", "set_seed"]
