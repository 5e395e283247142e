"""Training of mixtures with conjugate components: coordinate ascent for the components, SVI for the rest."""

import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyro
import torch
from pyro import poutine
from pyro.infer import TraceGraph_ELBO
from pyro.nn import PyroModule
from torch import Tensor

from pyro_options.distributions.mixture import Mixture
from pyro_options.errors import NumericalError, check
from pyro_options.growth.births import Birth
from pyro_options.growth.events import GrowthEvent
from pyro_options.growth.removals import Removal
from pyro_options.growth.rules import Rule
from pyro_options.handlers.growth import GrowthMessenger
from pyro_options.mixtures.conjugate_moves import BoundMerge, BoundRule, SeedBirth
from pyro_options.persistence.checkpoint import Checkpoint

from .resumable_training import ResumableTraining
from .trainer import set_seed


@dataclass(frozen=True)
class MixtureConfig:
    """How to train a mixture."""

    every: int = 10  # steps between growth checks
    patience: int = 4  # refused checks in a row after which growth is over
    max_steps: int = 4000
    final_steps: int = 100  # after growth, with a falling learning rate
    learning_rate: float = 0.1  # of the sticks and the concentration
    max_components: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        check(self.every >= 1 and self.patience >= 1, "every and patience >= 1", (self.every, self.patience))
        check(self.learning_rate > 0, "learning_rate > 0", self.learning_rate)


@dataclass
class MixtureHistory:
    """One entry per step."""

    elbo: list[float] = field(default_factory=list)  # nats per row
    num_components: list[int] = field(default_factory=list)
    growth_steps: list[int] = field(default_factory=list)  # steps after which a component was born
    seconds: float = 0.0


class MixtureTrainer(ResumableTraining):
    """Trains a :class:`~pyro_options.models.DPMixture` on all rows at once, growing it.

    A step lets the components absorb the rows in proportion to their responsibilities, which is the best belief given
    those, and learn their prior, which is the best for those beliefs; it takes one SVI step in everything else.

    :param model: with ``components`` that are :class:`~pyro_options.mixtures.Conjugate`
    :param guide: with ``weights``, a :class:`~pyro_options.guides.MixtureWeights`
    :param rule: judges births; ``None`` is the :class:`~pyro_options.mixtures.BoundRule`
    :param birth: starts a component; ``None`` is the :class:`~pyro_options.mixtures.SeedBirth`
    :param removals: take components away; ``None`` is the :class:`~pyro_options.mixtures.BoundMerge`
    :param checkpoint: where to save, and whether to go on from there; a path saves every minute
    """

    COUNTS: ClassVar[tuple[str, ...]] = ("num_steps", "refused", "final")

    def __init__(
        self,
        model: PyroModule,
        guide: PyroModule,
        rows: Tensor,
        config: MixtureConfig = MixtureConfig(),
        rule: Rule | None = None,
        birth: Birth | None = None,
        removals: Sequence[Removal] | None = None,
        checkpoint: Checkpoint | str | os.PathLike | None = None,
    ):
        set_seed(config.seed)
        self.model, self.guide, self.rows, self.config = model, guide, rows, config
        moving = [*model.high_level.parameters(), *guide.parameters()]
        self.optimizer = torch.optim.Adam(moving, lr=config.learning_rate)
        self.growth = GrowthMessenger(
            [model, guide],
            BoundRule(model.components) if rule is None else rule,
            SeedBirth(model.components) if birth is None else birth,
            [BoundMerge(model.components)] if removals is None else removals,
            every=config.every,
            max_components=config.max_components,
            site="rows",
        )
        self.elbo, self.history = TraceGraph_ELBO(), MixtureHistory()
        self.num_steps = self.refused = self.final = 0  # refused checks in a row; steps after growth
        self.save_to(Checkpoint(checkpoint) if isinstance(checkpoint, str | os.PathLike) else checkpoint)

    @property
    def data_sets(self) -> tuple[Tensor, ...]:
        """What it is trained on."""
        return (self.rows,)

    @property
    def progress_message(self) -> str:
        return f"{self.num_steps} steps are done, with {self.model.num_components} components"

    @torch.no_grad()
    def absorb(self) -> None:
        """The components' half of a step."""
        shares = Mixture(self.guide.weights.mean_log_weights(), self.model.components()).responsibilities(self.rows)
        self.model.components.absorb(self.rows, shares)
        self.model.components.learn_prior()

    def step(self) -> float:
        """One step of everything. Returns the ELBO in nats per row."""
        try:
            self.absorb()
        except torch.linalg.LinAlgError as error:
            raise self._failure("A component of the mixture lost its shape") from error
        self.optimizer.zero_grad(set_to_none=True)
        validate = self.num_steps == 0
        with (
            pyro.validation_enabled(validate),
            pyro.get_param_store().scope(),
            poutine.scale(scale=1 / len(self.rows)),
        ):
            elbo = -self.elbo.loss_and_grads(self.model, self.guide, self.rows)
        if not math.isfinite(elbo):
            raise self._failure(f"The ELBO of the mixture became {elbo}")
        self.optimizer.step()
        self.num_steps += 1
        self.history.elbo.append(elbo)
        self.history.num_components.append(self.model.num_components)
        return elbo

    def _failure(self, what: str) -> NumericalError:
        step, K = self.num_steps, self.model.num_components
        return NumericalError(
            f"{what} at step {step} with K = {K}. Lower the learning rate, or scale the rows.", step=step
        )

    def observe_and_grow(self, births: bool = True) -> GrowthEvent:
        """Lets the growth handler see all rows and decide."""
        rows, now = self.rows, self.num_steps
        with pyro.validation_enabled(False), pyro.get_param_store().scope():
            with torch.no_grad(), self.growth:
                self.model(rows)
            weights = self.guide.weights.mean_log_weights().detach()
            event = self.growth.step(
                self.optimizer, now, self.model, rows, weights, births=births, batch_size=len(rows)
            )
        if event.num_born:
            self.history.growth_steps.append(now)
        return event

    def simplify(self) -> None:
        """Removes what may go."""
        while self.observe_and_grow(births=False).num_removed:
            pass

    @property
    def growing(self) -> bool:
        """Whether something may still be born."""
        return self.refused < self.config.patience and self.num_steps < self.config.max_steps

    def advance(self) -> None:
        """As far as the next moment at which it can be saved."""
        config = self.config
        if self.growing:
            for _ in range(config.every):
                self.step()
            self.refused = 0 if self.observe_and_grow().num_born else self.refused + 1
            return
        if self.final == 0:
            self.simplify()
        if self.final < config.final_steps:
            self.optimizer.param_groups[0]["lr"] = config.learning_rate * (1 - self.final / config.final_steps)
            self.step()
            self.final += 1
            return
        self.simplify()
        self.settled = True

    def run(self) -> MixtureHistory:
        """Grows until nothing wants to be born, merges what is one, and lets everything settle.

        With a checkpoint, Ctrl-C saves before it raises :class:`~pyro_options.errors.Interrupted`.
        """
        self.drive()
        return self.history

    def steps(self) -> Iterator[None]:
        """Yields after each growth check, and after each of the last steps."""
        start, before = time.perf_counter(), self.history.seconds
        while not self.settled:
            self.advance()
            self.history.seconds = before + time.perf_counter() - start
            yield
