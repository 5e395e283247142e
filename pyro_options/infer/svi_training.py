"""One SVI step on a batch: TraceGraph_ELBO, finite or not, clipped, and an update by Adam."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pyro
import torch
from pyro import poutine
from pyro.infer import TraceGraph_ELBO
from pyro.nn import PyroModule
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.growth.workers import Workers
from pyro_options.handlers.average_steps import adapt
from pyro_options.handlers.entropy import EntropyMessenger
from pyro_options.handlers.own_draws import OwnDrawsMessenger
from pyro_options.handlers.temper import TemperMessenger
from pyro_options.handlers.weigh_rows import WeighRowsMessenger
from pyro_options.nn.shared_product import shared_product

from .deferred_steps import norm_on_device, scale_gradients
from .device import RandomState
from .health import Health, diagnosis, total_norm
from .objective import elbo_and_surrogate
from .resumable_training import ResumableTraining
from .train_config import TrainConfig


class SVITraining(ResumableTraining):
    """A training whose steps are SVI steps on batches of demonstrations."""

    model: PyroModule
    guide: PyroModule
    config: TrainConfig
    device: torch.device
    workers: Workers
    health: Health
    elbo: TraceGraph_ELBO
    temper: TemperMessenger
    entropy: EntropyMessenger
    num_steps: int
    epoch: int
    batch: int  # within the epoch
    row_weights: Tensor | None = None  #: of the rows of the present batch if some are padding, see WeighRowsMessenger
    _validated = 0  # the K for which Pyro's validation has passed

    def parameters(self) -> list[torch.nn.Parameter]:
        """All parameters of the model and the guide."""
        return [*self.model.parameters(), *self.guide.parameters()]

    @property
    def objective(self) -> tuple[Callable, Callable]:
        """Model and guide as passed to SVI: the model adapted to the guide and regularized, the guide tempered."""
        weights = self.entropy.row_weights = self.row_weights
        model, guide = self.entropy(adapt(self.model, self.guide)), self.temper(self.guide)
        if weights is None:
            return model, guide
        return WeighRowsMessenger(weights, observes=True)(model), WeighRowsMessenger(weights)(guide)

    def step(self, batch: Trajectories) -> float:
        """One SVI step. Returns the objective, nats per episode without the entropy bonus; NaN for a skipped step."""
        random_before = RandomState.of(self.device)
        self.optimizer.zero_grad(set_to_none=True)
        try:
            loss = float(self._loss_and_grads(batch))
        except (ValueError, UserWarning) as error:  # Pyro's validation raises before non-finite values reach the loss
            problem = diagnosis(self, "A check of Pyro's failed", batch, random_before)
            if not problem.where:
                raise
            self.workers.average(self.parameters(), [math.nan, 0.0])  # tells the others
            return self.health.give_up(problem, random_before, error)
        loss, bonus = self.workers.average(self.parameters(), [loss, self.entropy.bonus])
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        on_cpu = self.device.type == "cpu"
        norm = total_norm(gradients) if on_cpu else norm_on_device(gradients)  # as in deferred steps, to the bit
        if not math.isfinite(loss + float(norm)):
            what = f"The loss became {loss:.4g} and the norm of its gradient {float(norm):.4g}"
            return self.health.give_up(diagnosis(self, what, batch, random_before), random_before)
        self._validated = self.model.num_options
        if self.config.clip_norm is not None:
            if on_cpu:
                torch.nn.utils.clip_grads_with_norm_(self.parameters(), self.config.clip_norm, norm)
            else:
                scale_gradients(gradients, norm, self.config.clip_norm)
        self.optimizer.step()
        self.num_steps += 1
        return -loss - bonus * batch.population / batch.dataset_size

    def _loss_and_grads(self, batch: Trajectories) -> Tensor:
        """The negative objective of a batch, not read yet; its gradients are added to those of the parameters."""
        model, guide = self.objective
        batch = batch.unpack()  # here, since several modules read the states
        # Pyro validates shapes and constraints once for each K; at every step that would cost a tenth of the time.
        validate = self._validated != self.model.num_options
        with (
            pyro.validation_enabled(validate),
            pyro.get_param_store().scope(),
            poutine.scale(scale=1 / batch.dataset_size),
            self.own_draws,
            shared_product(batch.states, self.model, self.guide),
        ):
            (traces,) = self.elbo._get_traces(model, guide, (batch,), {})
            elbo, surrogate = elbo_and_surrogate(self.elbo, *traces)
            surrogate.backward()
        return -elbo.detach()

    @property
    def num_summed(self) -> int:
        """Numbers that the entropy bonus sums over all rows of a batch."""
        summed = self.entropy.active and self.entropy.per == "batch"
        return self.model.num_options + 1 if summed else 0

    @property
    def own_draws(self) -> AbstractContextManager:
        """Where paths are drawn: independently of those of other processes."""
        return OwnDrawsMessenger(self.workers) if self.workers.size > 1 else nullcontext()
