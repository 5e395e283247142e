"""Steps whose values are read later, so that the CPU does not wait for the device after each of them.

A step that went wrong changes nothing: from it on the optimizer is told on the device to leave parameters and its own
state alone. When the values are read, every :attr:`~pyro_options.infer.TrainConfig.check_every` steps, before a
checkpoint and at the end of an epoch, training returns to the first step that failed, with its random state, and takes
it again as it would on the CPU. Results therefore do not depend on how often values are read.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from pyro_options.data.trajectories import Trajectories

from .device import RandomState
from .step_graph import StepGraph

if TYPE_CHECKING:
    from .trainer import Trainer

#: steps between two looks at a device other than the CPU
EVERY = 32


class _Step(NamedTuple):
    """A step that was launched, and the place to return to if it failed."""

    num_steps: int
    batch: int
    random: RandomState
    outcome: Tensor  # (2,) minus the objective, and whether this or an earlier step failed
    weight: float


def norm_on_device(gradients: list[Tensor]) -> Tensor:
    """The norm of all gradients, in three launches; in float64, where squares do not overflow."""
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients, 2, torch.float64)))


def scale_gradients(gradients: list[Tensor], norm: Tensor, largest: float) -> None:
    """Clips the norm of all gradients together, in a few launches and without a sync."""
    factor = (largest / (norm + 1e-6)).clamp(max=1.0).to(gradients[0].dtype)
    torch._foreach_mul_(gradients, factor)


class DeferredSteps:
    """Takes the steps of a training, and reads their values now or later."""

    def __init__(self, trainer: "Trainer"):
        self.trainer, self.graph = trainer, StepGraph(trainer)
        self._steps: list[_Step] = []
        self._failed: Tensor | None = None  # a number, 1 once a step has failed; always at the same place in memory
        self._careful: tuple[int, int] | None = None  # epoch and batch of a step to take with its values read at once

    @property
    def every(self) -> int:
        """Steps between two looks."""
        given = self.trainer.config.check_every
        if given is not None:
            return given
        return 1 if self.trainer.device.type == "cpu" else EVERY

    def _can_wait(self) -> bool:
        """Whether the next step may be deferred: not where Pyro validates, which reads values anyway."""
        trainer = self.trainer
        validated = trainer._validated == trainer.model.num_options
        known = self._careful != (trainer.epoch, trainer.batch)
        return (self.every > 1 or trainer.config.cuda_graph) and validated and known and trainer.workers.size == 1

    def take(self, batch: Trajectories, weight: float) -> None:
        """Takes the next step of an epoch.

        :param weight: of this batch in a pass over the data
        """
        trainer = self.trainer
        if self._can_wait():
            before = trainer.num_steps, trainer.batch, RandomState.of(trainer.device)
            outcome = self.graph.take(batch, self._launch) if trainer.config.cuda_graph else self._launch(batch)
            self._steps.append(_Step(*before, outcome, weight))
            trainer.num_steps += 1
            trainer.batch += 1
            if len(self._steps) >= self.every:
                self.settle()
            return
        place = trainer.batch
        self.settle()
        if trainer.batch == place:  # no step before this one has failed
            self._count(trainer.step(batch), weight)
            trainer.batch += 1

    def _count(self, objective: float, weight: float) -> None:
        if not math.isnan(objective):
            total = self.trainer.total
            self.trainer.total = total[0] + objective * weight, total[1] + weight

    def _launch(self, batch: Trajectories) -> Tensor:
        """Launches a step and returns its outcome, which is not read here."""
        trainer, optimizer = self.trainer, self.trainer.optimizer
        if self._failed is None:
            self._failed = torch.zeros((), device=trainer.device)
        optimizer.zero_grad(set_to_none=True)
        loss = trainer._loss_and_grads(batch)
        gradients = [p.grad for p in trainer.parameters() if p.grad is not None]
        norm = norm_on_device(gradients)
        failed = ((loss + norm) * 0 != 0).to(torch.float32)  # isfinite takes four launches
        torch.maximum(self._failed, failed, out=self._failed)
        if trainer.config.clip_norm is not None:
            scale_gradients(gradients, norm, trainer.config.clip_norm)
        optimizer.found_inf = self._failed  # as torch's gradient scaler tells a fused optimizer to skip a step
        try:
            optimizer.step()
        finally:
            del optimizer.found_inf
        if isinstance(trainer.entropy.last_bonus, Tensor):
            loss = loss + trainer.entropy.last_bonus * (batch.population / batch.dataset_size)
        return torch.stack([loss, self._failed.to(loss)])

    def settle(self) -> None:
        """Reads the values of all steps so far; returns to the first that failed, if any."""
        steps, self._steps = self._steps, []
        if not steps:
            return
        assert self._failed is not None
        for step, (loss, failed) in zip(steps, torch.stack([one.outcome for one in steps]).cpu().tolist()):
            if failed:
                self._return_to(step)
                break
            self._count(-loss, step.weight)
        self._failed.zero_()

    def _return_to(self, step: _Step) -> None:
        trainer = self.trainer
        trainer.num_steps, trainer.batch = step.num_steps, step.batch
        trainer.optimizer.zero_grad(set_to_none=True)
        step.random.set(trainer.device)
        self._careful = trainer.epoch, step.batch
