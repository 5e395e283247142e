"""Demonstrations in, skills out: the one call."""

import logging
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check, check_count, choice
from pyro_options.infer.counts import ComponentCounts, component_counts
from pyro_options.infer.restarts import best_start, restart_seed
from pyro_options.infer.schedules import Exponential
from pyro_options.infer.trainer import TrainConfig, Trainer, set_seed
from pyro_options.persistence.checkpoint import Checkpoint
from pyro_options.skills.from_model import to_skills
from pyro_options.skills.segmentation import IN_USE
from pyro_options.skills.skills import Skills

from .assembly import Method, assemble, varying_inputs
from .config import METHODS, TRAIN_DEFAULTS, MethodConfig, named_config

logger = logging.getLogger(__name__)

#: what discovery changes of :class:`~pyro_options.discovery.MethodConfig`, whose defaults are those of the message task
METHOD_DEFAULTS: dict[str, Any] = {"hidden": (), "skip_constant": True}

#: growth checks in a training, with a rule that lets new options train before they are judged
CHECKS = 6

#: share of the epochs after which the best of several beginnings goes on
BEGINNING = 0.2


@dataclass(frozen=True)
class Budget:
    """How long and how fast to train on given demonstrations; measured on synthetic options and on Breakout.

    What counts is the number of updates. So episodes are trained on few at a time, more of them where they are short,
    and passed over more often where there are few. A linear layer learns at a rate that moves its output by about
    ``output_step`` in one update whatever the number and size of its inputs, which are 200 bits in one data set and
    six metres in another. The more inputs share an output, the less each of their weights moves in an update: many
    inputs take more updates, ``updates_per_input`` of them.
    """

    batch_steps: int = 4800  # steps in a batch, at least one episode
    min_batches: int = 8  # in an epoch
    updates: int = 4000  # to aim at
    max_epochs: int = 100
    output_step: float = 0.4
    updates_per_input: int = 80
    max_slow_epochs: int = 300  # where many inputs ask for more than the updates above
    deep_learning_rate: float = 5e-3  # where hidden layers see the states

    def train_config(self, data: Trajectories, hidden: Sequence[int]) -> TrainConfig:
        """Epochs, batch size and learning rate for these demonstrations."""
        N = len(data)
        batch_size = max(1, min(round(self.batch_steps * N / data.num_steps), math.ceil(N / self.min_batches)))
        batches = math.ceil(N / batch_size)
        epochs = min(self.max_epochs, math.ceil(self.updates / batches))
        rate = self.deep_learning_rate
        if not hidden:
            rate = min(0.1, self.output_step / (1 + varying_size(data)))
            updates = self.updates_per_input * (1 + active_inputs(data))
            epochs = max(epochs, min(self.max_slow_epochs, math.ceil(updates / batches)))
        return TrainConfig(epochs=epochs, batch_size=batch_size, learning_rate=rate)


def _varying_sizes(data: Trajectories, num_episodes: int = 100) -> Tensor:
    """Absolute values of those entries of a state that vary ``(steps, entries)``, over the first episodes."""
    data = data[:num_episodes]
    sizes = varying_inputs(data)(data.states)[data.mask].abs()
    return sizes.float() if sizes.element_size() < 4 else sizes


def _magnitude(sizes: Tensor) -> Tensor:
    """The power of two at or below the largest size. To divide by it is exact, and keeps squares and sums finite."""
    largest = sizes.clamp(min=torch.finfo(sizes.dtype).tiny)
    return largest / (2 * torch.frexp(largest).mantissa)


def varying_size(data: Trajectories) -> float:
    """The mean sum of absolute values of those entries of a state that vary."""
    sizes = _varying_sizes(data)
    unit = _magnitude(sizes.max())
    return float((sizes / unit).sum(-1).mean()) * float(unit)


def active_inputs(data: Trajectories) -> float:
    r"""How many of the entries that vary a state has at a time: the mean of :math:`(\sum|s|)^2 / \sum s^2`.

    The number of ones where states are bits; the unit of measurement makes no difference.
    """
    sizes = _varying_sizes(data)
    sizes = sizes / _magnitude(sizes.amax(-1, keepdim=True))
    squares = sizes.square().sum(-1)
    return float((sizes.sum(-1).square() / squares.clamp(min=torch.finfo(squares.dtype).tiny)).mean())


def method_config(method: str, **config) -> MethodConfig:
    """The method called ``method``, with one linear layer per option and its guide's rule unless ``config`` differs."""
    guide = METHODS[choice(method, "method", METHODS)]["guide"]
    return named_config(method, config, METHOD_DEFAULTS | {"rule": TRAIN_DEFAULTS[guide].rule})


def skills_of(trained: Method, data: Trajectories, action_names=None, metadata=None) -> Skills:
    """The options of a trained method, the most used on ``data`` first."""
    given = {"packed": data.packed, "action_names": action_names, "metadata": metadata}
    found = to_skills(trained.model, trained.guide, **given)
    found.summary = found.summarize(data)
    return found.used(0.0)


def options_in_use(
    trainer: Trainer, data: Trajectories, num_draws: int = 20, episodes: int = 64, steps: int = 500
) -> ComponentCounts:
    """The posterior over how many options cover one step in a hundred, by draws of weights and paths.

    :param episodes: of the data to draw paths for, the first
    :param steps: of each episode, the first
    """
    shown = data[:episodes].cut(steps).to(trainer.device, next(trainer.model.parameters()).dtype)
    rows = shown.rows_together()
    return component_counts(trainer.model, trainer.guide, shown, num_draws, min_share=IN_USE, batch_size=rows)


def discover(
    trajectories: Trajectories,
    method: str = "options-exact",
    *,
    held_out: float = 0.0,
    validation: float = 0.1,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    restarts: int = 1,
    seed: int = 0,
    device: str = "auto",
    progress: bool = True,
    action_names: Sequence[str] | None = None,
    train: TrainConfig | None = None,
    checkpoint: str | os.PathLike | Checkpoint | None = None,
    resume: bool = False,
    **config,
) -> Skills:
    """Finds the options in demonstrations, and how many there are.

    Example::

        skills = discover(trajectories, held_out=0.1)
        print(skills.describe())
        skills.used().save("skills.safetensors")

    All K options are returned, the most used first; :meth:`~pyro_options.skills.Skills.used` keeps those in use.
    ``skills.metadata`` has everything that led to them: ``method`` and ``train`` (every setting), ``history`` (ELBO and
    K after each epoch), ``growth`` (every decision, and the usage that it was made on), ``log_likelihood`` in exact
    nats per step on the ``train`` and the ``held_out`` episodes, ``options_in_use`` (mode, mean and 90 % interval of
    the posterior over how many cover one step in a hundred), ``updates`` of the parameters, ``seconds``.

    :param method: a key of :data:`pyro_options.discovery.METHODS`; the default sums paths out exactly and grows K
    :param held_out: share of the episodes to keep for evaluation only
    :param validation: share of the others to judge growth by, with a rule that needs it (``trial``)
    :param epochs: passes over the demonstrations; by default about 4000 updates in at most 100 passes, or up to three
        times as much where states have many entries, see :class:`Budget`
    :param batch_size: episodes per update; by default about 4800 steps of them, and at least 8 updates a pass
    :param learning_rate: of the networks; by default by the size of the states, see :class:`Budget`
    :param restarts: beginnings from different initial values, of which that with the best bound after a fifth of the
        epochs goes on: with a fixed K a single one often ends in a local optimum
    :param seed: of everything; the same seed gives the same skills
    :param device: ``cpu``, ``cuda`` or ``auto``
    :param progress: show a bar
    :param action_names: names of discrete actions, for tables and pictures
    :param train: every other setting of training; the arguments above go before it
    :param checkpoint: file to save the training in, every minute and on Ctrl-C
    :param resume: go on from that file if there is one, to the same skills as without a break
    :param config: fields of :class:`~pyro_options.discovery.MethodConfig`: ``num_options=8`` for a fixed K,
        ``hidden=(64,)`` for a network below the options, ``termination_cost=2.0`` for longer ones
    """
    fix = "Make them of your arrays with Trajectories(states, actions, lengths)."
    check(isinstance(trajectories, Trajectories), "Trajectories", type(trajectories).__name__, fix)
    for name in config:
        choice(name, "every setting", {*signature(discover).parameters, *signature(MethodConfig).parameters})
    named = action_names is None or (trajectories.discrete and len(action_names) == trajectories.num_actions)
    check(named, "one name for each discrete action", action_names)
    fixed = method_config(method, **config)
    data, test = trajectories.split(held_out, seed) if held_out else (trajectories, None)
    tries = fixed.num_options is None and fixed.rule == "trial"
    train_on, judge = _split_for_growth(data, validation, seed) if tries else (data, None)
    settings = _train_config(train_on, fixed, train)
    given: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}
    settings = replace(settings, **{name: value for name, value in given.items() if value is not None})
    settings = replace(settings, seed=seed, device=device, progress=progress)
    saved = _checkpoint(checkpoint, resume)
    if tries and not config.get("check_every"):
        updates = settings.epochs * math.ceil(len(train_on) / settings.batch_size)
        fixed = replace(fixed, check_every=_saved_interval(saved) or max(1, updates // CHECKS))

    def begin(number: int, saved: Checkpoint | None = None) -> Trainer:
        set_seed(restart_seed(seed, number))
        parts = assemble(data, fixed)
        return Trainer(parts.model, parts.guide, train_on, settings, parts.growth, judge, saved)

    about = {"method": asdict(fixed)} | ({"restarts": restarts} if restarts > 1 else {})
    if saved is not None:
        saved = replace(saved, about={**saved.about, **about})
    trainer = _best_trainer(begin, restarts, settings.epochs, saved)
    found = Method(trainer.model, trainer.guide, trainer.growth)
    history = trainer.run()
    skills = skills_of(found, data, action_names)
    likelihood = {"train": skills.log_likelihood(data)}
    if test is not None:
        likelihood["held_out"] = skills.log_likelihood(test)
    skills.metadata |= {
        "method": {"name": method} | asdict(fixed),
        "train": asdict(settings),
        "restarts": restarts,
        "episodes": {"train": len(data), "held_out": 0 if test is None else len(test)},
        "history": history.to_dict(),
        "growth": [] if found.growth is None else [event.to_dict() for event in found.growth.history],
        "log_likelihood": likelihood,
        "updates": trainer.num_steps,
        "options_in_use": options_in_use(trainer, data).to_dict(),
        "seconds": history.seconds,
    }
    logger.info("%d options, %d in use: %s nats per step", skills.num_options, skills.used_options, likelihood)
    return skills.to("cpu")


def _best_trainer(begin: Callable[..., Trainer], restarts: int, epochs: int, saved: Checkpoint | None) -> Trainer:
    """What was saved if there is something, else the best of several beginnings, which are not saved themselves."""
    check_count(restarts, "restarts")
    trainer = begin(0, saved)
    if restarts == 1 or trainer.num_steps or not epochs:
        return trainer
    trainer = best_start(begin, restarts, max(1, round(BEGINNING * epochs)))
    trainer.save_to(saved)
    return trainer


def _checkpoint(given: str | os.PathLike | Checkpoint | None, resume: bool) -> Checkpoint | None:
    """Where to save, and whether to go on from there."""
    if given is None:
        check(not resume, "a checkpoint to resume", None, "Pass checkpoint=…, the file that the training was saved in.")
        return None
    given = given if isinstance(given, Checkpoint) else Checkpoint(given)
    return replace(given, resume=resume or given.resume)


def _saved_interval(saved: Checkpoint | None) -> int | None:
    """Updates between growth checks of the training that goes on: more epochs must not change them under way."""
    growth = None if saved is None else (saved.settings(Trainer.FORMAT) or {}).get("growth")
    return None if growth is None else growth["every"]


def _split_for_growth(data: Trajectories, share: float, seed: int) -> tuple[Trajectories, Trajectories | None]:
    """Episodes to train on and to judge growth by; too few to spare two are all trained on, and judge themselves."""
    check(0 < share < 1, "a share of episodes for validation in (0, 1)", share)
    count = max(2, round(share * len(data)))
    return data.split(count / len(data), seed) if count <= len(data) // 2 else (data, None)


def _train_config(data: Trajectories, config: MethodConfig, train: TrainConfig | None) -> TrainConfig:
    """What was given, or the default for these demonstrations and this guide."""
    if train is not None:
        check(isinstance(train, TrainConfig), "a TrainConfig", train)
        return train
    defaults = TRAIN_DEFAULTS[config.guide]
    entropy = defaults.entropy_weight if config.num_options is None else 0.0
    found = Budget().train_config(data, config.hidden)
    rate = min(found.learning_rate, defaults.max_learning_rate)
    return replace(found, entropy_weight=Exponential(entropy), learning_rate=rate)
