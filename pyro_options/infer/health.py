"""What stopped being a number, where, and what is done about it."""

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

if TYPE_CHECKING:
    from .trainer import Trainer

logger = logging.getLogger(__name__)


def total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """The norm of all gradients, also where the sum of their squares is too large a number."""
    norm = torch.nn.utils.get_total_norm(gradients)
    if not norm.isinf():
        return norm
    largest = torch.stack([gradient.abs().max() for gradient in gradients]).max().double()
    if not largest.isfinite():
        return norm
    return largest * torch.nn.utils.get_total_norm([gradient / largest for gradient in gradients])


def _named_parameters(trainer: "Trainer") -> list[tuple[str, torch.nn.Parameter]]:
    parts = (("model", trainer.model), ("guide", trainer.guide))
    return [(f"{prefix}.{name}", p) for prefix, module in parts for name, p in module.named_parameters()]


def _bad(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and not bool(value.isfinite().all())


def bad_parameters(trainer: "Trainer") -> list[str]:
    """Names of parameters that are not finite."""
    return [name for name, parameter in _named_parameters(trainer) if _bad(parameter)]


def bad_gradients(trainer: "Trainer") -> list[str]:
    """Names of parameters whose gradient is not finite."""
    return [name for name, parameter in _named_parameters(trainer) if _bad(parameter.grad)]


@torch.no_grad()
def bad_sites(trainer: "Trainer", batch: Trajectories, random: Tensor) -> list[str]:
    """Sites with a value or a log probability that is not finite, in the order in which they are met.

    :param random: torch's state before the step, which is drawn again
    """
    model, guide = trainer.objective
    found: list[str] = []
    with (
        torch.random.fork_rng(devices=[]),
        pyro.validation_enabled(False),
        pyro.get_param_store().scope(),
    ):
        torch.set_rng_state(random)
        try:
            drawn = poutine.trace(guide).get_trace(batch)
            found += _bad_nodes(drawn)
            found += _bad_nodes(poutine.trace(poutine.replay(model, drawn)).get_trace(batch))
        except (ValueError, RuntimeError, ArithmeticError) as error:  # a site so bad that nothing comes after it
            found.append(f"({error})")
    return list(dict.fromkeys(found))


def _bad_nodes(trace: poutine.Trace) -> list[str]:
    nodes = [(name, node) for name, node in trace.nodes.items() if node["type"] == "sample"]
    return [name for name, node in nodes if _bad(node["value"]) or _bad(node["fn"].log_prob(node["value"]))]


def diagnosis(trainer: "Trainer", what: str, batch: Trajectories | None, random: Tensor | None) -> NumericalError:
    """Says what became non-finite, at which site, in which parameters, at which step and batch."""
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
    """Stops a training whose numbers are no longer any, or goes on as ``TrainConfig.on_nonfinite`` says."""

    def __init__(self, trainer: "Trainer"):
        self.trainer = trainer
        self._good: tuple[dict[str, Any], dict[str, Tensor]] | None = None

    def remember(self) -> None:
        """Keeps the parameters to go back to, if that is the policy."""
        if self.trainer.config.on_nonfinite == "restore":
            self._good = self.trainer.capture()

    def give_up(
        self, problem: NumericalError, random: Tensor | None = None, cause: BaseException | None = None
    ) -> float:
        """Skips a step, returning NaN, or takes the parameters back, or raises the problem.

        Skipping does not help when it is the parameters that are broken.
        """
        trainer, policy = self.trainer, self.trainer.config.on_nonfinite
        trainer.optimizer.zero_grad(set_to_none=True)
        if policy == "restore" and self._good is not None:
            trainer.restore_parameters(*self._good)
            trainer.history.restored_steps.append(trainer.num_steps)
            logger.warning("took the parameters of the last epoch back: %s", problem)
        elif policy == "skip" and not bad_parameters(trainer):
            trainer.history.skipped_steps.append(trainer.num_steps)
            logger.warning("skipped a step: %s", problem)
        else:
            raise self._with_advice(problem, random) from cause
        return math.nan

    def _with_advice(self, problem: NumericalError, random: Tensor | None) -> NumericalError:
        """The problem, after the state just before it was saved, with what to do."""
        advice = 'Lower the learning rate, or pass on_nonfinite="skip" or "restore".'
        saver = self.trainer.saver
        if saver is not None:
            if random is not None:
                torch.set_rng_state(random)
            path = Path(saver.checkpoint.path)
            debug = path.with_name(f"{path.name}.debug")
            saver.save(debug)
            advice += f" The state before that step is in {debug}: resume from a copy of it to see it again."
        problem.args = (f"{problem} {advice}",)
        return problem

    def check_parameters(self, what: str) -> bool:
        """Parameters must be finite after an epoch and after growth; ``False`` if they had to be taken back."""
        sound = not bad_parameters(self.trainer)
        if not sound:
            self.give_up(diagnosis(self.trainer, what, None, None))
        return sound

    def check_epoch(self) -> None:
        """An epoch must have taken a step, and left finite parameters."""
        if not self.trainer.total[1]:
            problem = diagnosis(self.trainer, "No step of an epoch could be taken", None, None)
            raise self._with_advice(problem, None)
        self.check_parameters("An update failed")
