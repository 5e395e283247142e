"""Growth checks of a training: usage is measured, components are added and removed, and the result is checked."""

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import pyro
import torch
from pyro import poutine
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.growth.events import GrowthEvent
from pyro_options.handlers.average_steps import adapt
from pyro_options.handlers.collapse import collapse
from pyro_options.nn.remembered_features import RememberFeatures

from .refinement import BEFORE_JUDGING, refine

if TYPE_CHECKING:
    from .trainer import Trainer

#: steps of the training data on which a growth check measures usage, at most; its moves look at fewer still
OBSERVED_STEPS = 2**20


class GrowthChecks:
    """Lets the growth handler of a training see the data and change the number of components."""

    def __init__(self, trainer: "Trainer"):
        self.trainer = trainer

    def _observed(self) -> Trajectories:
        """The episodes that a growth check measures usage on: all, or a random sample of many."""
        data = self.trainer.data
        if data.num_steps <= OBSERVED_STEPS:
            return data
        count = max(2, len(data) * OBSERVED_STEPS // data.num_steps)
        return data[torch.randperm(len(data))[:count].to(self.trainer.device)].alone()

    def _observe(self) -> None:
        """Runs the model in the growth handler."""
        trainer, model = self.trainer, adapt(self.trainer.model, self.trainer.guide)
        trainer.workers.begin((trainer.config.seed, trainer.epoch, trainer.batch, 1))
        with torch.no_grad(), pyro.get_param_store().scope(), trainer.own_draws:
            for batch, share, _ in trainer.batches(self._observed()):
                trace = poutine.trace(trainer.temper(trainer.guide)).get_trace(batch)
                with trainer.growth if share and trainer.growth else nullcontext():
                    poutine.replay(model, trace)(batch)

    def __call__(self, births: bool = True) -> GrowthEvent:
        """One check; ``births`` is whether components may be added."""
        trainer, growth = self.trainer, self.trainer.growth
        assert growth is not None
        refine(trainer, trainer.data, BEFORE_JUDGING)
        self._observe()
        weights = trainer.guide.weights.mean_log_weights().detach()
        model = RememberFeatures(collapse(trainer.model), trainer.model)
        rows, together = trainer.data, trainer.data.rows_together()
        with pyro.get_param_store().scope():
            given = trainer.optimizer, trainer.num_steps, model, rows, weights, trainer.held_out, births
            event = growth.step(*given, batch_size=together)
        if not trainer.health.check_parameters("Growth failed"):
            event = replace(event, moves=())  # the parameters were restored, so nothing has changed
        if event.num_born:
            refine(trainer, trainer.data, BEFORE_JUDGING)
            trainer.history.growth_epochs.append(trainer.epoch)
        if event.num_removed:
            trainer.history.removal_epochs.append(trainer.epoch)
        return event

    def judge_scores(self) -> list[float]:
        """Log-likelihood of each held-out episode at the mean weights, in nats."""
        return [] if self.trainer.held_out is None else self.scores(self.trainer.held_out).tolist()

    @torch.no_grad()
    def scores(self, data: Trajectories) -> Tensor:
        """Log-likelihood of each of some episodes at the mean weights, in nats ``(N,)``."""
        trainer = self.trainer
        weights = torch.log_softmax(trainer.guide.weights.mean_log_weights(), -1)
        model, found = collapse(trainer.model), []
        with pyro.get_param_store().scope():
            for batch in data.minibatches(data.rows_together()):
                node = poutine.trace(model).get_trace(batch.unpack(), weights).nodes["actions"]
                found.append(node["fn"].log_prob(node["value"]))
        return torch.cat(found)
