"""Detects non-finite losses, gradients and parameters, locates their cause, and applies ``on_nonfinite``."""

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyro
import torch
from pyro import poutine
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import NumericalError

from .device import RandomState

if TYPE_CHECKING:
    from .svi_training import SVITraining
    from .trainer import Trainer

logger = logging.getLogger(__name__)


def total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """The norm of all gradients, also where the sum of their squares overflows."""
    norm = torch.nn.utils.get_total_norm(gradients)
    if not norm.isinf():
        return norm
    largest = torch.stack([gradient.abs().max() for gradient in gradients]).max().double()
    if not largest.isfinite():
        return norm
    return largest * torch.nn.utils.get_total_norm([gradient / largest for gradient in gradients])


def _named_parameters(trainer: "SVITraining") -> list[tuple[str, torch.nn.Parameter]]:
    parts = (("model", trainer.model), ("guide", trainer.guide))
    return [(f"{prefix}.{name}", p) for prefix, module in parts for name, p in module.named_parameters()]


def _bad(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and not bool(value.isfinite().all())


def _bad_names(named: Sequence[tuple[str, Tensor | None]]) -> list[str]:
    """Names of tensors with non-finite values, all read at once."""
    present = [(name, value) for name, value in named if value is not None]
    if not present:
        return []
    sound = torch.stack([value.detach().isfinite().all() for _, value in present]).cpu().tolist()
    return [name for (name, _), fine in zip(present, sound) if not fine]


def bad_parameters(trainer: "SVITraining") -> list[str]:
    """Names of parameters with non-finite values."""
    return _bad_names(_named_parameters(trainer))


def bad_gradients(trainer: "SVITraining") -> list[str]:
    """Names of parameters with non-finite gradients."""
    return _bad_names([(name, parameter.grad) for name, parameter in _named_parameters(trainer)])


@torch.no_grad()
def bad_sites(trainer: "SVITraining", batch: Trajectories, random: RandomState) -> list[str]:
    """Names of sites with a non-finite value or log-probability, in order of execution.

    :param random: torch's random state before the step, to repeat its samples
    """
    model, guide = trainer.objective
    found: list[str] = []
    with (
        random.repeated(trainer.device),
        pyro.validation_enabled(False),
        pyro.get_param_store().scope(),
    ):
        try:
            drawn = poutine.trace(guide).get_trace(batch)
            found += _bad_nodes(drawn)
            found += _bad_nodes(poutine.trace(poutine.replay(model, drawn)).get_trace(batch))
        except (ValueError, RuntimeError, ArithmeticError) as error:  # a bad value can make the rest of the model raise
            found.append(f"({error})")
    return list(dict.fromkeys(found))


def _bad_nodes(trace: poutine.Trace) -> list[str]:
    nodes = [(name, node) for name, node in trace.nodes.items() if node["type"] == "sample"]
    return [name for name, node in nodes if _bad(node["value"]) or _bad(node["fn"].log_prob(node["value"]))]


def diagnosis(
    trainer: "SVITraining", what: str, batch: Trajectories | None, random: RandomState | None
) -> NumericalError:
    """An error that names the non-finite sites, parameters and gradients, and the step and batch.

    :param what: what failed, the start of the message
    :param batch: the batch of the failed step, to find its sites; ``None`` to look at parameters only
    :param random: torch's random state before that step
    """
    sites = [] if batch is None or random is None else bad_sites(trainer, batch, random)
    where = [f"site {name!r}" for name in sites[:2]]
    where += [f"parameter {name}" for name in bad_parameters(trainer)[:2]]
    where += [f"gradient of {name}" for name in bad_gradients(trainer)[:2]]
    place = f"step {trainer.num_steps} (epoch {trainer.epoch}, batch {trainer.batch})"
    return NumericalError(
        f"{what} at {place}: {', '.join(where) or 'nothing else'} not finite.",
        where[0] if where else "",
        trainer.num_steps,
        trainer.epoch,
        trainer.batch,
    )


class Health:
    """Handles non-finite values of a training as ``TrainConfig.on_nonfinite`` says: stop, skip or restore."""

    def __init__(self, trainer: "Trainer"):
        self.trainer = trainer
        self._good: tuple[dict[str, Any], dict[str, Tensor]] | None = None

    def remember(self) -> None:
        """Keeps a copy of the training state, if ``on_nonfinite="restore"``."""
        if self.trainer.config.on_nonfinite == "restore":
            self._good = self.trainer.capture()

    def give_up(
        self, problem: NumericalError, random: RandomState | None = None, cause: BaseException | None = None
    ) -> float:
        """Skips the step or restores the parameters, and returns NaN; or raises ``problem``.

        It also raises with ``on_nonfinite="skip"`` if parameters are non-finite, which skipping cannot repair.
        """
        trainer, policy = self.trainer, self.trainer.config.on_nonfinite
        trainer.optimizer.zero_grad(set_to_none=True)
        if policy == "restore" and self._good is not None:
            trainer.restore_parameters(*self._good)
            trainer.history.restored_steps.append(trainer.num_steps)
            logger.warning("restored the parameters of the last epoch: %s", problem)
        elif policy == "skip" and not bad_parameters(trainer):
            trainer.history.skipped_steps.append(trainer.num_steps)
            logger.warning("skipped a step: %s", problem)
        else:
            raise self._with_advice(problem, random) from cause
        return math.nan

    def _with_advice(self, problem: NumericalError, random: RandomState | None) -> NumericalError:
        """The problem with advice added; with a checkpoint, the state before the step is saved for debugging."""
        advice = 'Lower the learning rate, or pass on_nonfinite="skip" or "restore".'
        saver = self.trainer.saver
        if saver is not None:
            if random is not None:
                random.set(self.trainer.device)
            path = Path(saver.checkpoint.path)
            debug = path.with_name(f"{path.name}.debug")
            try:
                saver.save(debug)
                advice += f" The state before that step is in {debug}: resume from a copy of it to see it again."
            except OSError as error:
                advice += f" The state before that step could not be saved: {error.strerror or error}."
        problem.args = (f"{problem} {advice}",)
        return problem

    def check_parameters(self, what: str) -> bool:
        """Checks that all parameters are finite; ``False`` if they were not and have been restored."""
        sound = not bad_parameters(self.trainer)
        if not sound:
            self.give_up(diagnosis(self.trainer, what, None, None))
        return sound

    def check_epoch(self) -> None:
        """Checks that the epoch took at least one step and that all parameters are finite."""
        if not self.trainer.total[1]:
            problem = diagnosis(self.trainer, "No step of an epoch could be taken", None, None)
            raise self._with_advice(problem, None)
        self.check_parameters("An update failed")
