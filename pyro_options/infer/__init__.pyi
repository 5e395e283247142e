from .callbacks import Callback, Callbacks, Phase
from .counts import ComponentCounts, component_counts
from .device import resolve_device, set_seed
from .growing_svi import GrowingHistory, train_growing
from .history import History
from .mixture_trainer import MixtureConfig, MixtureHistory, MixtureTrainer
from .parallel import Processes, join_workers
from .progress import ProgressBar
from .restarts import best_start, restart_seed
from .schedules import Constant, Exponential, Schedule
from .tensorboard import TensorBoard
from .train_config import TrainConfig
from .trainer import Trainer

__all__ = [
    "Callback",
    "Callbacks",
    "ComponentCounts",
    "Constant",
    "Exponential",
    "GrowingHistory",
    "History",
    "MixtureConfig",
    "MixtureHistory",
    "MixtureTrainer",
    "Phase",
    "Processes",
    "ProgressBar",
    "Schedule",
    "TensorBoard",
    "TrainConfig",
    "Trainer",
    "best_start",
    "component_counts",
    "join_workers",
    "resolve_device",
    "restart_seed",
    "set_seed",
    "train_growing",
]
