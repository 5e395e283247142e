from .counts import ComponentCounts, component_counts
from .growing_svi import GrowingHistory, train_growing
from .mixture_trainer import MixtureConfig, MixtureHistory, MixtureTrainer
from .restarts import best_start, restart_seed
from .schedules import Constant, Exponential, Schedule
from .trainer import History, TrainConfig, Trainer, resolve_device, set_seed

__all__ = [
    "ComponentCounts",
    "Constant",
    "Exponential",
    "GrowingHistory",
    "History",
    "MixtureConfig",
    "MixtureHistory",
    "MixtureTrainer",
    "Schedule",
    "TrainConfig",
    "Trainer",
    "best_start",
    "component_counts",
    "resolve_device",
    "restart_seed",
    "set_seed",
    "train_growing",
]
