"""Training curves for TensorBoard."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyro_options.errors import require
from pyro_options.growth.events import GrowthEvent

from .callbacks import Callback, Phase

if TYPE_CHECKING:
    from .trainer import Trainer

#: share of the steps from which on an option counts as used
USED = 0.01


class TensorBoard(Callback):
    """Writes training curves in TensorBoard's format, which most other experiment trackers read too.

    Each phase of :func:`~pyro_options.discover` is a run of its own, in a folder of its name; a trainer on its own
    writes to ``folder`` itself. Time is the number of updates. After each epoch: ``train/elbo`` (``train/objective`` if
    it is no bound), ``train/temperature``, ``train/entropy_weight``, ``train/learning_rate``, ``options/K``. After each
    growth check: ``options/used`` (options that are responsible for at least 1 % of the steps), ``options/born`` and
    ``options/removed``.

    Example::

        discover(data, callbacks=[TensorBoard("runs/first")])  # tensorboard --logdir runs

    :param folder: made if it does not exist
    """

    def __init__(self, folder: str | os.PathLike):
        module = require("torch.utils.tensorboard", "tensorboard")
        self._make, self.folder, self._run = module.SummaryWriter, Path(folder), ""
        self._writer: Any = None

    def on_phase(self, phase: Phase) -> None:
        number = f"-{phase.number}" if phase.count > 1 else ""
        self._run = phase.name.replace(" ", "-") + number

    def on_start(self, trainer: "Trainer", epochs: int) -> None:
        self.on_end(trainer)
        # What an interrupted run wrote after its last checkpoint is written again.
        self._writer = self._make(str(self.folder / self._run), purge_step=trainer.num_steps + 1)

    def on_epoch(self, trainer: "Trainer") -> None:
        history = trainer.history
        name = "train/elbo" if history.objective_is_bound else "train/objective"
        self._add(trainer, name, history.objective[-1])
        self._add(trainer, "train/temperature", history.temperature[-1])
        self._add(trainer, "train/entropy_weight", history.entropy_weight[-1])
        self._add(trainer, "train/learning_rate", float(trainer.optimizer.param_groups[0]["lr"]))
        self._add(trainer, "options/K", history.num_options[-1])

    def on_growth(self, trainer: "Trainer", event: GrowthEvent) -> None:
        self._add(trainer, "options/used", int((event.usage.posterior >= USED).sum()))
        self._add(trainer, "options/born", event.num_born)
        self._add(trainer, "options/removed", event.num_removed)

    def on_end(self, trainer: "Trainer") -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _add(self, trainer: "Trainer", name: str, value: float) -> None:
        if self._writer is not None:
            self._writer.add_scalar(name, value, trainer.num_steps)
