"""Training of mixtures with conjugate components: coordinate ascent for the components, SVI for everything else."""

import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
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

from .device import set_seed
from .resumable_training import ResumableTraining


@dataclass(frozen=True)
class MixtureConfig:
    """Settings of :class:`MixtureTrainer`."""

    every: int = 10  # steps between growth checks
    patience: int = 4  # growth ends after this many checks in a row without a birth
    max_steps: int = 4000  # growth also ends after this many steps
    final_steps: int = 100  # after growth, with a linearly decaying learning rate
    learning_rate: float = 0.1  # of the sticks and the concentration
    max_components: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        check(self.every >= 1 and self.patience >= 1, "every and patience >= 1", (self.every, self.patience))
        check(self.learning_rate > 0, "learning_rate > 0", self.learning_rate)


@dataclass
class MixtureHistory:
    """ELBO and K of every step, and the steps with births."""

    elbo: list[float] = field(default_factory=list)  # nats per row
    num_components: list[int] = field(default_factory=list)
    growth_steps: list[int] = field(default_factory=list)  # steps after which a component was added
    seconds: float = 0.0


class MixtureTrainer(ResumableTraining):
    """Trains a :class:`~pyro_options.models.DPMixture` on the full data set and grows it.

    Each step sets the posterior of the components given their responsibilities, in closed form, then their
    hyperparameters (empirical Bayes), and takes one SVI step in everything else: the sticks and the concentration.

    :param model: its ``components`` are :class:`~pyro_options.mixtures.Conjugate`
    :param guide: a :class:`~pyro_options.guides.MixtureWeights`
    :param rows: data ``(N, ...)``
    :param rule: accepts or refuses births, by default :class:`~pyro_options.mixtures.BoundRule`
    :param birth: initializes a new component, by default :class:`~pyro_options.mixtures.SeedBirth`
    :param removals: moves that remove components, by default :class:`~pyro_options.mixtures.BoundMerge`
    :param checkpoint: where to save and whether to resume; a path saves every minute
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
        self.num_steps = self.refused = self.final = 0  # steps; checks in a row without a birth; steps after growth
        self.save_to(Checkpoint(checkpoint) if isinstance(checkpoint, str | os.PathLike) else checkpoint)

    @property
    def data_sets(self) -> tuple[Tensor, ...]:
        """The training data."""
        return (self.rows,)

    @property
    def progress_message(self) -> str:
        return f"{self.num_steps} steps are done, with {self.model.num_components} components"

    @torch.no_grad()
    def absorb(self) -> None:
        """Updates the posterior and the hyperparameters of the components, in closed form."""
        shares = Mixture(self.guide.weights.mean_log_weights(), self.model.components()).responsibilities(self.rows)
        self.model.components.absorb(self.rows, shares)
        self.model.components.learn_prior()

    def step(self) -> float:
        """Updates the components, then takes one SVI step. Returns the ELBO in nats per row."""
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
        """Runs the model in the growth handler and lets it add or remove components.

        :param births: whether components may be added
        """
        rows, now, growth = self.rows, self.num_steps, self.growth
        assert growth is not None
        with pyro.validation_enabled(False), pyro.get_param_store().scope():
            with torch.no_grad(), growth:
                self.model(rows)
            weights = self.guide.weights.mean_log_weights().detach()
            event = growth.step(self.optimizer, now, self.model, rows, weights, births=births, batch_size=len(rows))
        if event.num_born:
            self.history.growth_steps.append(now)
        return event

    def simplify(self) -> None:
        """Removes components until no removal is accepted."""
        while self.observe_and_grow(births=False).num_removed:
            pass

    @property
    def growing(self) -> bool:
        """Whether components may still be added."""
        return self.refused < self.config.patience and self.num_steps < self.config.max_steps

    def advance(self) -> None:
        """Runs to the next state that can be saved: a growth check, one of the final steps, or the end."""
        config = self.config
        if self.growing:
            for _ in range(config.every):
                self.step()
            growth = self.growth
            if growth is not None and isinstance(growth.rule, BoundRule):
                # after a birth was refused, two together, then one again
                growth.rule = replace(growth.rule, births=1 + self.refused % 2)
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
        """Grows until births are refused, merges components, and takes the final steps.

        With a checkpoint, Ctrl-C saves before it raises :class:`~pyro_options.errors.Interrupted`.
        """
        self.drive()
        return self.history

    def steps(self) -> Iterator[None]:
        """Yields after each growth check, and after each of the final steps."""
        start, before = time.perf_counter(), self.history.seconds
        while not self.settled:
            self.advance()
            self.history.seconds = before + time.perf_counter() - start
            yield
