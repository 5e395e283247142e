"""The training loop: SVI with TraceGraph_ELBO, Adam with a clipped global gradient norm, growth between epochs."""

import copy
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from pyro.infer import TraceGraph_ELBO
from pyro.nn import PyroModule
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.growth.events import GrowthEvent
from pyro_options.growth.workers import ALONE, Workers
from pyro_options.handlers.entropy import EntropyMessenger
from pyro_options.handlers.growth import GrowthMessenger
from pyro_options.handlers.temper import TemperMessenger
from pyro_options.kernels.registry import to_be_compiled
from pyro_options.nn.state_network import StateNetwork
from pyro_options.persistence.checkpoint import Checkpoint
from pyro_options.persistence.storage import checksum

from .annealing import Annealed
from .callbacks import Callback, Callbacks
from .deferred_steps import DeferredSteps
from .device import resolve_device, set_seed
from .growth_checks import GrowthChecks
from .health import Health
from .history import History
from .optimizer import TrainingOptimizer
from .progress import with_progress
from .refinement import AT_THE_ENDS, refine
from .step_graph import padded_index, padded_weights
from .svi_training import SVITraining
from .train_config import TrainConfig
from .trial_removals import try_removals


class Trainer(SVITraining):
    """Trains a model and a guide on demonstrations with SVI, and grows K if a growth handler is given.

    :param model: an :class:`~pyro_options.models.OptionHMM`, or any model of ``Trajectories``
    :param guide: any guide of :mod:`pyro_options.guides`
    :param data: demonstrations to train on
    :param growth: adds and removes components of both; ``None`` keeps K fixed
    :param held_out: demonstrations to judge growth by, instead of the training data
    :param final_data: demonstrations of the final phase, when growth is over, usually ``data`` and ``held_out``
        together; ``data`` by default
    :param checkpoint: where to save and whether to resume; a path saves every minute
    :param callbacks: told of epochs and growth, see :class:`~pyro_options.infer.Callback`
    :param workers: the processes that share the episodes of every batch, see
        :func:`~pyro_options.infer.join_workers`; by default this one alone
    """

    COUNTS: ClassVar[tuple[str, ...]] = ("epoch", "num_steps", "batch")

    def __init__(
        self,
        model: PyroModule,
        guide: PyroModule,
        data: Trajectories,
        config: TrainConfig = TrainConfig(),
        growth: GrowthMessenger | None = None,
        held_out: Trajectories | None = None,
        checkpoint: Checkpoint | str | os.PathLike | None = None,
        final_data: Trajectories | None = None,
        callbacks: Iterable[Callback] = (),
        workers: Workers = ALONE,
    ):
        set_seed(config.seed)
        self.device = resolve_device(config.device)
        self.model, self.guide, self.config, self.growth = model.to(self.device), guide.to(self.device), config, growth
        self.data = self._prepared(data)
        self.held_out = None if held_out is None else self._prepared(held_out)
        self.final_data = self.data if final_data is None else self._prepared(final_data)
        self.shuffle_generator = torch.Generator().manual_seed(config.seed)
        self._optimizer = TrainingOptimizer(self.model, self.guide, self.guide.weights, config, len(self.data))
        self.optimizer = self._optimizer.adam
        self.elbo = TraceGraph_ELBO()
        self.temper = TemperMessenger()
        self.entropy = EntropyMessenger(0.0, "actions", config.entropy_per, workers)
        self._temperature, self._entropy_weight = (Annealed(next(self.model.parameters())) for _ in range(2))
        self.history = History(objective_is_bound=getattr(guide, "objective_is_bound", True))
        self.epoch = self.num_steps = self.batch = 0  # batch counts within the epoch
        self.epoch_generator_state = self.shuffle_generator.get_state()  # at the start of the epoch
        self.total: tuple[float, float] = (0.0, 0)  # summed objective and weight of the episodes of this epoch so far
        self._epochs_to_run: int | None = None  # argument of the current call of run
        self._compiles = False  # whether the first step of a run has to compile kernels
        self.health = Health(self)
        self.deferred = DeferredSteps(self)
        self.growth_checks = GrowthChecks(self)
        self._join(workers)
        if config.cuda_graph:
            self.deferred.graph.check()
        told = with_progress(Callbacks(callbacks), config.progress) if workers.writes else Callbacks()
        self.callbacks = told
        self.save_to(Checkpoint(checkpoint) if isinstance(checkpoint, str | os.PathLike) else checkpoint)

    def _join(self, workers: Workers) -> None:
        """Makes this training one of several processes that train the same model on the same data."""
        self.workers, self.writes = workers, workers.writes
        if self.growth is not None:
            self.growth.workers = workers
        workers.check_same("demonstrations", lambda: repr(self.data), "Let every process read the same files.")

    def _check_same_state(self) -> None:
        """Raises if steps and parameters are not the same in all processes."""
        fix = "Seed before making a model, and keep checkpoints where all processes can read them."

        def state() -> tuple[int, str]:
            return self.num_steps, checksum("", {"parameters": iter(self.parameters())})

        self.workers.check_same("parameters", state, fix)

    def agree(self, *flags: bool) -> tuple[bool, ...]:
        return self.workers.agree(*flags)

    def _prepared(self, data: Trajectories) -> Trajectories:
        """A data set on the device, in the model's precision; images stay as they are for a network that reads them."""
        shaped = any(isinstance(part, StateNetwork) for part in self.model.modules())
        data = data.alone() if shaped else data.alone().flat_states()
        return data.to(self.device, next(self.model.parameters()).dtype)

    def shrink(self, scale: float | None) -> None:
        """Sets the scale of the prior on the weights of heads, see :attr:`TrainConfig.weight_scale`."""
        self.config = replace(self.config, weight_scale=scale)
        self._optimizer.shrink(scale)

    def fork(self) -> "Trainer":
        """A copy that can be trained on independently; it shares data and callbacks, and is not saved."""
        saver, self.saver = self.saver, None
        shared = {id(one): one for one in (self.data, self.held_out, self.final_data, self.callbacks)}
        twin = copy.deepcopy(self, shared)
        self.saver = saver
        return twin

    @property
    def in_final_phase(self) -> bool:
        """Whether growth is over and all the data are trained on."""
        return self.config.in_final_phase(self.epoch)

    @property
    def data_sets(self) -> tuple[Trajectories | None, ...]:
        """Training and held-out data."""
        return self.data, self.held_out

    @property
    def progress_message(self) -> str:
        return f"{self.num_steps} steps and {self.epoch} of {self.config.epochs} epochs are done"

    def position(self) -> tuple[dict[str, float], dict[str, Tensor]]:
        """Position within the epoch: running sums of the objective, and the state that determines the data's order."""
        return {"objective": self.total[0], "episodes": self.total[1]}, {"order": self.epoch_generator_state}

    def set_position(self, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """The inverse of :meth:`position`."""
        objective, episodes = numbers["objective"], numbers["episodes"]
        count = type(episodes) in (int, float) and 0 <= episodes < math.inf
        check(count, "episodes to be a count", repr(episodes))
        self.total, self.epoch_generator_state = (float(objective), episodes), tensors["order"]

    def batches(
        self, data: Trajectories, generator: torch.Generator | None = None, first: int = 0, padded: bool = False
    ) -> Iterator[tuple[Trajectories, float, float]]:
        """Batches of this process, its share of each, and the weight of the whole batch in a pass over the data.

        :param first: number of the first batch
        :param padded: to one size, with :attr:`row_weights` set for each batch
        """
        size = min(self.config.batch_size, len(data))
        for index, population in data.batch_indices(self.config.batch_size, generator)[first:]:
            own, share = self.workers.share(index)
            if padded:
                own = padded_index(own, size)
                self.row_weights = padded_weights(len(index), size, next(self.model.parameters()))
            yield data.minibatch(own, population), share, len(index) * len(data) / population

    def observe_and_grow(self, births: bool = True) -> GrowthEvent:
        """Runs the model in the growth handler over all data, and lets it add or remove components.

        :param births: whether components may be added
        """
        self.callbacks.on_status("growth check")
        event = self.growth_checks(births)
        self._check_same_state()
        self.callbacks.on_growth(self, event)
        self.callbacks.on_status("")
        return event

    def remove_unneeded(self) -> None:
        """Removes components until no removal is accepted, without births."""
        while self.growth is not None and self.growth.removals and self.observe_and_grow(births=False).num_removed:
            pass

    def end_growth(self) -> None:
        """Removes what is not needed, as the components are and once the others have adapted."""
        self.remove_unneeded()
        try_removals(self)

    def settle(self) -> None:
        """Removes unneeded components, unless that was done before a final phase; the training is then completed."""
        if self.config.final_epoch == self.config.epochs:
            self.end_growth()
        refine(self, self.final_data, AT_THE_ENDS)
        self.settled = True

    def run(self, epochs: int | None = None) -> History:
        """Trains for the config's remaining epochs and removes unneeded components, or for ``epochs`` more epochs.

        Births stop ``growth.settle * growth.every`` steps before the end, since later ones could not be trained. With a
        checkpoint, Ctrl-C saves before it raises :class:`~pyro_options.errors.Interrupted`.
        """
        if epochs is None:
            done, fix = self.restored_epochs, "Pass as many or more, or start anew without resume."
            check(done <= self.config.epochs, f"epochs >= {done}, which are done already,", self.config.epochs, fix)
        self._epochs_to_run = epochs
        self._check_same_state()
        try:
            self.drive()
        finally:
            self.callbacks.on_end(self)
        return self.history

    @property
    def _num_epochs(self) -> int:
        """Epochs of the current call of :meth:`run`."""
        return max(0, self.config.epochs - self.epoch) if self._epochs_to_run is None else self._epochs_to_run

    def check_state(self) -> None:
        self.deferred.settle()
        self.health.check_parameters("An update failed")

    def steps(self) -> Iterator[None]:
        """Yields after each update, and after each epoch with its growth check."""
        self._tell_of_start()  # here, where Ctrl-C is postponed
        epochs = self._epochs_to_run
        start, before = time.perf_counter(), self.history.seconds
        if not self.num_steps and self._num_epochs:
            refine(self, self.data, AT_THE_ENDS)
        for _ in range(self._num_epochs):
            yield from self.train_epoch()
            if self.epoch == self.config.final_epoch < self.config.epochs:
                self.end_growth()
                self.history.judge_scores = self.growth_checks.judge_scores()
            elif self.growth is not None and not self.in_final_phase:
                births = epochs is not None or self._enough_time()
                if self.growth.due(self.num_steps, births):
                    self.observe_and_grow(births)
            self.history.seconds = before + time.perf_counter() - start
            yield
        if epochs is None and self.epoch and not self.settled:
            self.settle()
        self.history.seconds = before + time.perf_counter() - start

    def _enough_time(self) -> bool:
        """Whether enough steps remain to train a component that is added now."""
        assert self.growth is not None
        ahead = (self.config.final_epoch - self.epoch) * self.data.num_batches(self.config.batch_size)
        return self.growth.enough_time(ahead)

    def _anneal(self) -> None:
        """Sets temperature, entropy weight and learning rates of this epoch."""
        config, epoch = self.config, self.epoch
        self.temper.temperature = self._temperature(config.temperature(epoch))
        weight = config.entropy_weight(epoch)
        self.entropy.weight = self._entropy_weight(weight) if weight > 0 else 0.0
        self._optimizer.set_rates(config, epoch)

    def restore_parameters(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        super().restore_parameters(config, tensors)
        if self.config.cuda_graph:
            self._optimizer.set_rates(self.config, self.epoch)  # the saved ones are no tensors

    def train_epoch(self) -> Iterator[None]:
        """One pass over the data, or the rest of one that was resumed; yields after each update but the last."""
        self._anneal()
        self.health.remember()
        self.settled = False
        data = self.final_data if self.in_final_phase else self.data
        count = data.num_batches(self.config.batch_size)
        while self.batch < count:
            yield from self._take_batches(data, count)
            self.deferred.settle()
        self.health.check_epoch()
        self.record(self.total[0] / self.total[1])
        self.epoch, self.batch, self.total, self.epoch_generator_state = (
            self.epoch + 1,
            0,
            (0.0, 0),
            self.shuffle_generator.get_state(),
        )
        self.callbacks.on_epoch(self)

    def _take_batches(self, data: Trajectories, count: int) -> Iterator[None]:
        """Takes the remaining batches of an epoch, or those up to a look that returned to an earlier one."""
        self.shuffle_generator.set_state(self.epoch_generator_state)
        batches = self.batches(data, self.shuffle_generator, self.batch, padded=self.config.cuda_graph)
        for number, (batch, share, weight) in enumerate(batches, self.batch + 1):
            self.workers.begin((self.config.seed, self.epoch, self.batch), share, self.num_summed)
            try:
                self.deferred.take(batch, weight)
            finally:
                self.row_weights = None
            self._tell_of_step()
            del batch  # before the next one is made: with one long episode it can be a large part of the data
            if number < count and self.batch == number:  # after the last batch, growth comes before saving
                yield
            if self.batch != number:
                return

    def record(self, objective: float) -> None:
        """Appends an epoch to the history."""
        self.history.objective.append(objective)
        self.history.num_options.append(self.model.num_options)
        self.history.temperature.append(self.config.temperature(self.epoch))
        self.history.entropy_weight.append(self.config.entropy_weight(self.epoch))

    def _tell_of_start(self) -> None:
        self.callbacks.on_start(self, self._num_epochs)
        self._compiles = to_be_compiled()
        if self._compiles:
            self.callbacks.on_status("compiling, once")

    def _tell_of_step(self) -> None:
        if self._compiles:
            self._compiles = False
            self.callbacks.on_status("")
        self.callbacks.on_step(self)
