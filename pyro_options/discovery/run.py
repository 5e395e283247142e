"""``discover``: from demonstrations to skills in one call."""

import logging
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import DiscoveryWarning, check, check_count, choice
from pyro_options.infer.counts import ComponentCounts, component_counts
from pyro_options.infer.restarts import best_start, restart_seed
from pyro_options.infer.trainer import TrainConfig, Trainer, set_seed
from pyro_options.persistence.checkpoint import Checkpoint
from pyro_options.skills.from_model import to_skills
from pyro_options.skills.segmentation import IN_USE
from pyro_options.skills.skills import Skills

from .assembly import Plan, assemble, make_plan, with_families
from .capacity import AUTO, Capacity
from .config import DEFAULT_METHOD, MethodConfig, method_config
from .growth import GROWTH_FIELDS
from .presets import with_preset
from .search import MIN_EPOCHS, Trial, search
from .trust import ONE_POLICY, ONE_POLICY_RATE, OTHER_SHARE, OTHER_STARTS, Judged, measure

logger = logging.getLogger(__name__)

#: share of the epochs for which every restart is trained, before the best one continues
BEGINNING = 0.2

#: restarts of the default method
RESTARTS = 4


def found_skills(model: Any, guide: Any, data: Trajectories, action_names=None, metadata=None) -> Skills:
    """The skills of a trained model, with their statistics on ``data``, the most used first."""
    given = {"packed": data.packed, "action_names": action_names, "metadata": metadata}
    found = to_skills(model, guide, **given)
    found.summary = found.summarize(data)
    return found.used(0.0)


def options_in_use(
    trainer: Trainer,
    data: Trajectories,
    num_draws: int = 20,
    episodes: int = 64,
    steps: int = 500,
    others: Sequence[Trainer] = (),
) -> ComponentCounts:
    """The posterior over the number of options that cover at least 1 % of the steps, by sampling weights and paths.

    Given one start the draws hardly differ, while other starts find other numbers, so their draws are put together.

    :param episodes: use at most this many first episodes
    :param steps: use at most this many first steps of each
    :param others: trainers from other starts
    """
    if others:
        found = [options_in_use(one, data, num_draws, episodes, steps) for one in (trainer, *others)]
        return ComponentCounts(torch.cat([one.draws for one in found]), max(one.num_components for one in found))
    shown = data[:episodes].cut(steps).to(trainer.device, next(trainer.model.parameters()).dtype)
    rows = shown.rows_together()
    return component_counts(trainer.model, trainer.guide, shown, num_draws, min_share=IN_USE, batch_size=rows)


def discover(
    trajectories: Trajectories,
    method: str | None = None,
    *,
    preset: str | None = None,
    held_out: float = 0.0,
    validation: float = 0.1,
    epochs: int | None = None,
    batch_size: int | None = None,
    learning_rate: float | None = None,
    restarts: int | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: bool = True,
    trust: bool = True,
    action_names: Sequence[str] | None = None,
    train: TrainConfig | None = None,
    checkpoint: str | os.PathLike | Checkpoint | None = None,
    resume: bool = False,
    **config,
) -> Skills:
    """Discovers options in demonstrations, and how many there are.

    Example::

        skills = discover(trajectories, held_out=0.1)
        print(skills.describe())
        skills.used().save("skills.safetensors")

    All K options are returned, the most used first; :meth:`~pyro_options.skills.Skills.used` keeps those in use.
    ``skills.metadata`` records how they were made: ``method`` and ``train`` (all settings), ``history`` (objective and
    K of each epoch), ``growth`` (every growth check, with the usage that it was based on), ``log_likelihood`` (exact,
    in nats per step, of the ``train`` and the ``held_out`` episodes), ``options_in_use`` (mode, mean and 90 % interval
    of the posterior over the number of options that cover at least 1 % of the steps), ``updates`` (optimizer steps) and
    ``seconds``.

    :param method: a key of :data:`~pyro_options.discovery.METHODS`; by default ``options-exact``, which sums out paths
        exactly and grows K, unless ``model``, ``guide`` or ``prior`` is given
    :param preset: settings by name, which the other arguments override: ``paper`` for those of the paper, on Atari (if
        states are packed bits) or on its message task, or a key of :data:`~pyro_options.discovery.PRESETS`
    :param held_out: share of the episodes to keep for evaluation only
    :param validation: share of the remaining episodes to judge growth by, with a rule that needs it (``trial``)
    :param epochs: passes over the demonstrations; by default about 4000 updates in at most 100 epochs, or up to 300
        epochs if states have many entries, see :class:`Budget`
    :param batch_size: episodes per update; by default about 4800 steps per batch and at least 8 updates per epoch
    :param learning_rate: of the networks; by default from the scale of the states, see :class:`Budget`
    :param restarts: number of initializations; each is trained for a fifth of the epochs, and the one with the best
        training ELBO continues (with a guide whose objective is no bound, that with the best exact likelihood), since a
        single run often ends in a local optimum. By default 4 with ``options-exact`` in trainings of at least 10
        epochs, otherwise 1
    :param seed: of initialization, splits and training; the same seed gives the same skills
    :param device: ``cpu``, ``cuda`` or ``auto``
    :param progress: show a progress bar
    :param trust: also measure how far the result can be trusted, see :class:`~pyro_options.skills.Trust`: trains single
        policies for comparison, and, if K is open, two shorter runs from other starts. Warnings are issued as
        :class:`~pyro_options.errors.DiscoveryWarning`. Trainings of fewer than 10 epochs are not measured
    :param action_names: names of discrete actions, or of the dimensions of other actions, for tables and figures; by
        default those of the trajectories
    :param train: all other training settings; the arguments above override it
    :param checkpoint: file to save the training in, every minute and on Ctrl-C
    :param resume: resume from that file if it exists; the result is the same as without the interruption
    :param config: fields of :class:`~pyro_options.discovery.MethodConfig`: ``num_options=8`` for a fixed K,
        ``hidden=(64,)`` for a shared state network, ``action_families`` for the distribution of each action dimension
        (:func:`~pyro_options.discovery.resolved_families`), ``termination_cost=2.0`` for longer options;
        ``model``, ``guide`` and ``prior`` by name or as objects, ``growth=Growth(rule, birth, removals)``
    """
    fix = "Make them of your arrays with Trajectories(states, actions, lengths)."
    check(isinstance(trajectories, Trajectories), "Trajectories", type(trajectories).__name__, fix)
    own = {*signature(discover).parameters, *signature(MethodConfig).parameters, *GROWTH_FIELDS}
    for name in config:
        choice(name, "every setting", own)
    trajectories = trajectories.with_names(action_names=action_names)
    action_names = trajectories.action_names
    data, test = trajectories.split(held_out, seed) if held_out else (trajectories, None)
    config, preset_train = with_preset(preset, data, method, config)
    train = preset_train if train is None else train
    if method is None and not config.keys() & {"model", "guide", "prior"}:
        method = DEFAULT_METHOD
    if method == DEFAULT_METHOD and train is None and not config.keys() & {"hidden", "weight_scale"}:
        config |= {"hidden": AUTO, "weight_scale": AUTO}
    described = method_config(method, **config)
    made = [part for part in (described.model, described.guide) if isinstance(part, nn.Module)]
    long = (epochs if epochs is not None else MIN_EPOCHS) >= MIN_EPOCHS and train is None
    saved = _checkpoint(checkpoint, resume)
    if restarts is None:
        restarts = RESTARTS if method == DEFAULT_METHOD and long and not made else 1
        before = None if saved is None else saved.settings(Trainer.FORMAT)
        restarts = restarts if before is None else before["about"].get("restarts", 1)
    fix = "Pass a function of Pieces that makes it: every start needs initial values of its own."
    check(restarts == 1 or not made, "restarts=1 with a module that is there already", restarts, fix)
    check(trajectories.action_steps is not None, "demonstrations with actions", "none")
    described = with_families(described, trajectories)  # held-out episodes must have values that the policy knows
    given: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}
    given = {name: value for name, value in given.items() if value is not None}
    interval = _saved_interval(saved)
    described, searches = _saved_capacity(saved, described), described.searches
    given |= {"device": device, "progress": progress}

    def planned(capacity: Capacity | None = None, epochs: int | None = None) -> Plan:
        chosen = described if capacity is None else replace(described, **vars(capacity))
        more = given if epochs is None else given | {"epochs": epochs}
        return make_plan(data, chosen, train, validation, seed, interval, held_back=searches, **more)

    def begin(plan: Plan, number: int, saved: Checkpoint | None = None) -> Trainer:
        set_seed(restart_seed(seed, number))
        parts = assemble(data, plan.config, plan.train)
        return Trainer(parts.model, parts.guide, plan.train_on, plan.train, parts.growth, plan.judge, saved, plan.final)

    plan, first = planned(), None
    trials: list[Trial] = []
    if described.searches and plan.judge is not None and plan.train.epochs >= MIN_EPOCHS:
        fields = described.hidden, described.weight_scale
        found, trials = search(lambda one: begin(planned(one), 0), plan.judge, *fields, progress=progress)
        plan, first = planned(found.capacity), found.trainer
    fixed, settings = plan.config, plan.train
    about = {"method": fixed.to_dict()} | ({"restarts": restarts} if restarts > 1 else {})
    if saved is not None:
        saved = replace(saved, about={**saved.about, **about})
    trainer = _best_trainer(partial(begin, plan), restarts, settings.epochs, saved, first)
    history = trainer.run()
    skills = found_skills(trainer.model, trainer.guide, data, action_names)
    measures = trust and settings.epochs >= MIN_EPOCHS
    others: list[Trainer] = []
    # growth from one option takes the whole training, so that shorter ones would find fewer
    if measures and described.num_options is None and fixed.growth.judges_after_training and not made:
        hidden, scale = fixed.hidden, fixed.weight_scale
        assert not isinstance(hidden, str) and not isinstance(scale, str)
        short = planned(Capacity(hidden, scale), max(1, round(OTHER_SHARE * settings.epochs)))
        for number in range(OTHER_STARTS):
            others.append(begin(short, restarts + number))
            others[-1].run()
    likelihood = {"train": skills.log_likelihood(data)}
    if test is not None:
        likelihood["held_out"] = skills.log_likelihood(test)
    skills.metadata |= {
        "method": {"name": method} | fixed.to_dict(),
        "train": asdict(settings),
        "restarts": restarts,
        "episodes": {"train": len(data), "held_out": 0 if test is None else len(test)},
        "history": history.to_dict(),
        "capacity": [one.to_dict() for one in trials],
        "growth": [] if trainer.growth is None else [event.to_dict() for event in trainer.growth.history],
        "log_likelihood": likelihood,
        "updates": trainer.num_steps,
        "options_in_use": options_in_use(trainer, data, others=others).to_dict(),
        "seconds": history.seconds,
    }
    if trajectories.state_names is not None:
        skills.metadata["state_names"] = list(trajectories.state_names)
    if measures:
        judged = _judged(trainer, skills, data, test)
        other_skills = [_skills_of(one, data) for one in others]
        families = fixed.action_families
        record = measure(skills, data, judged, _one_policy(fixed, settings), other_skills, families)
        skills.metadata["trust"] = record.to_dict()
        for text in record.warnings:
            warnings.warn(text, DiscoveryWarning, stacklevel=2)
    logger.info("%d options, %d in use: %s nats per step", skills.num_options, skills.used_options, likelihood)
    return skills.to("cpu")


def _skills_of(trainer: Trainer, data: Trajectories) -> Skills:
    return to_skills(trainer.model, trainer.guide, packed=data.packed)


def _judged(trainer: Trainer, skills: Skills, data: Trajectories, test: Trajectories | None) -> Judged | None:
    """Scores of held-out episodes: of the test set, else of those that judged growth, before the final phase."""
    if test is not None:
        return Judged(test, skills.episode_log_likelihoods(test), data)
    scores, episodes = trainer.history.judge_scores, trainer.held_out
    if not scores or episodes is None:
        return None
    return Judged(episodes, torch.tensor(scores, dtype=torch.float64), trainer.data)


def _one_policy(config: MethodConfig, train: TrainConfig) -> Callable[..., Trainer]:
    """Makes a trainer of a single policy with the settings of these skills, or with another network."""

    def make(data: Trajectories, hidden: tuple[int, ...] | None) -> Trainer:
        same = {"skip_constant": config.skip_constant, "standardize": config.standardize}
        same |= {"censored": config.censored, "action_families": config.action_families}
        single = method_config("bc", hidden=config.hidden if hidden is None else hidden, **same)
        plan = make_plan(data, single, seed=train.seed, device=train.device, progress=False)
        rate = ONE_POLICY_RATE if single.hidden else plan.train.learning_rate
        epochs = max(1, round(ONE_POLICY * plan.train.epochs))
        settings = replace(plan.train, epochs=epochs, learning_rate=rate, final_phase=0.9)
        set_seed(train.seed)
        parts = assemble(data, plan.config, settings)
        return Trainer(parts.model, parts.guide, data, settings)

    return make


def _best_trainer(
    begin: Callable[..., Trainer], restarts: int, epochs: int, saved: Checkpoint | None, first: Trainer | None
) -> Trainer:
    """The resumed trainer if there is a checkpoint, else the best of several restarts, which are not saved.

    :param first: the first restart, if it was begun by the search for capacity
    """
    check_count(restarts, "restarts")
    if first is None:
        first = begin(0, saved)
        if restarts == 1 or first.num_steps or not epochs:
            return first
        first.save_to(None)
    if restarts > 1:
        beginnings = {0: first}
        first = best_start(
            lambda number: beginnings.pop(number, None) or begin(number), restarts, max(1, round(BEGINNING * epochs))
        )
    first.save_to(saved)
    return first


def _saved_capacity(saved: Checkpoint | None, described: MethodConfig) -> MethodConfig:
    """The settings with the capacity that an interrupted training had chosen, if it is to be resumed."""
    found = None if saved is None else saved.settings(Trainer.FORMAT)
    if not described.searches or found is None:
        return described
    method = found["about"].get("method", {})
    return replace(described, hidden=tuple(method.get("hidden", ())), weight_scale=method.get("weight_scale"))


def _checkpoint(given: str | os.PathLike | Checkpoint | None, resume: bool) -> Checkpoint | None:
    """The checkpoint to save to, with ``resume`` set."""
    if given is None:
        check(not resume, "a checkpoint to resume", None, "Pass checkpoint=…, the file that the training was saved in.")
        return None
    given = given if isinstance(given, Checkpoint) else Checkpoint(given)
    return replace(given, resume=resume or given.resume)


def _saved_interval(saved: Checkpoint | None) -> int | None:
    """Updates between growth checks of the training to resume: they must stay the same if it gets more epochs."""
    growth = None if saved is None else (saved.settings(Trainer.FORMAT) or {}).get("growth")
    return None if growth is None else growth["every"]
