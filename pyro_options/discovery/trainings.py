"""The trainers of one discovery."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyro_options.data.trajectories import Trajectories
from pyro_options.growth.workers import ALONE, Workers
from pyro_options.infer.callbacks import Callback, Callbacks, Phase
from pyro_options.infer.device import RandomState, set_seed
from pyro_options.infer.restarts import best_start, clearly_better, restart_seed
from pyro_options.infer.train_config import TrainConfig
from pyro_options.infer.trainer import Trainer
from pyro_options.persistence.checkpoint import Checkpoint

from .assembly import Plan, assemble, make_plan
from .capacity import Capacity
from .config import MethodConfig, method_config
from .search import MIN_EPOCHS, Trial, search
from .trust import ONE_POLICY, ONE_POLICY_RATE, OTHER_SHARE, OTHER_STARTS

#: share of the epochs for which every restart is trained, before the best one continues
BEGINNING = 0.2


@dataclass(frozen=True)
class Trainings:
    """Makes the trainers of one discovery, on the same episodes: candidates, restarts, other starts, single policies.

    :param data: the episodes, without those that are kept for evaluation
    :param config: the method; settings that are searched for may be open
    :param train: training settings; ``None`` is a :class:`Budget`
    :param validation: share of the episodes to judge growth and capacity by
    :param interval: updates between growth checks, if a training is resumed
    :param held_back: hold these episodes out even if nothing in ``config`` needs them
    :param restarts: number of initializations
    :param given: training settings that override ``train``
    :param callbacks: told of every training
    :param workers: the processes that share the episodes
    """

    data: Trajectories
    config: MethodConfig
    train: TrainConfig | None
    validation: float
    seed: int
    interval: int | None
    held_back: bool
    restarts: int
    given: Mapping[str, Any]
    callbacks: Callbacks = field(default_factory=Callbacks)
    workers: Workers = ALONE

    def plan(self, capacity: Capacity | None = None, epochs: int | None = None) -> Plan:
        """How to train, with another capacity or for another number of epochs."""
        config = self.config if capacity is None else replace(self.config, **vars(capacity))
        given = self.given if epochs is None else {**self.given, "epochs": epochs}
        settings = self.train, self.validation, self.seed, self.interval, self.held_back
        return make_plan(self.data, config, *settings, **given)

    def begin(self, plan: Plan, number: int, saved: Checkpoint | None = None, hard: bool = False) -> Trainer:
        """A new trainer with the initial values of restart ``number``.

        :param hard: begin with hard options if the settings say so, and otherwise as by default
        """
        set_seed(restart_seed(self.seed, number))
        config = replace(plan.config, start=None) if plan.config.start == "hard" and not hard else plan.config
        parts = assemble(self.data, config, plan.train)
        return Trainer(
            parts.model,
            parts.guide,
            plan.train_on,
            plan.train,
            parts.growth,
            held_out=plan.judge,
            checkpoint=saved,
            final_data=plan.final,
            callbacks=self.callbacks.members,
            workers=self.workers,
        )

    def searched(self) -> tuple[Plan, Trainer | None, list[Trial]]:
        """The plan with the best capacity, the trainer that was begun with it, and all that was tried."""
        plan, config = self.plan(), self.config
        if not config.searches or plan.judge is None or plan.train.epochs < MIN_EPOCHS:
            return plan, None, []
        found, trials = search(
            lambda one: self.begin(self.plan(one), 0, hard=self.restarts == 1),
            plan.judge,
            config.hidden,
            config.weight_scale,
            self.callbacks,
        )
        return self.plan(found.capacity), found.trainer, trials

    def best(self, plan: Plan, saved: Checkpoint | None, first: Trainer | None) -> Trainer:
        """The resumed trainer if there is a checkpoint, else the best of several restarts, which are not saved.

        :param first: the first restart, if it was begun by the search for capacity
        """
        begin, epochs, restarts = partial(self.begin, plan), plan.train.epochs, self.restarts
        if first is None:
            first = begin(0, saved, hard=restarts == 1)
            if restarts == 1 or first.num_steps or not epochs:
                return first
            first.save_to(None)
        if restarts > 1:
            beginnings, brief = {0: first}, max(1, round(BEGINNING * epochs))
            first = best_start(
                lambda number: beginnings.pop(number, None) or begin(number), restarts, brief, self.callbacks
            )
        first.save_to(saved)
        return first

    def challenged(self, plan: Plan, best: Trainer) -> Trainer:
        """The training of the best restart, or a whole one from hard options where that is clearly better.

        Where it is not, what follows is as if it had not been tried.
        """
        if plan.config.start != "hard" or self.restarts == 1 or not plan.train.epochs:
            return best
        with RandomState.of(best.device).repeated(best.device):
            self.callbacks.on_phase(Phase("hard start"))
            other = self.begin(plan, self.restarts, hard=True)
            other.run()
        return other if clearly_better(other, best) else best

    def others(self, plan: Plan) -> list[Trainer]:
        """Shorter trainings from other starts than the restarts."""
        hidden, scale = plan.config.hidden, plan.config.weight_scale
        assert not isinstance(hidden, str) and not isinstance(scale, str)
        short = self.plan(Capacity(hidden, scale), max(1, round(OTHER_SHARE * plan.train.epochs)))
        found = []
        for number in range(OTHER_STARTS):
            self.callbacks.on_phase(Phase("other start", number + 1, OTHER_STARTS))
            found.append(self.begin(short, self.restarts + number))
            found[-1].run()
        return found


def one_policy(
    config: MethodConfig, train: TrainConfig, callbacks: Iterable[Callback] = (), workers: Workers = ALONE
) -> Callable[..., Trainer]:
    """Makes a trainer of a single policy with the settings of these skills, or with another network."""

    def make(data: Trajectories, hidden: tuple[int, ...] | None) -> Trainer:
        same = {"skip_constant": config.skip_constant, "standardize": config.standardize}
        same |= {"censored": config.censored, "action_families": config.action_families, "network": config.network}
        single = method_config("bc", hidden=config.hidden if hidden is None else hidden, **same)
        plan = make_plan(data, single, seed=train.seed, device=train.device, progress=False)
        rate = ONE_POLICY_RATE if single.hidden and config.network is None else plan.train.learning_rate
        epochs = max(1, round(ONE_POLICY * plan.train.epochs))
        settings = replace(plan.train, epochs=epochs, learning_rate=rate, final_phase=0.9)
        set_seed(train.seed)
        parts = assemble(data, plan.config, settings)
        return Trainer(parts.model, parts.guide, data, settings, callbacks=callbacks, workers=workers)

    return make
