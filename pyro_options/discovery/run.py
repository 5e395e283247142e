"""``discover``: from demonstrations to skills in one call."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from inspect import signature
from typing import Any

from torch import nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check, check_count, choice
from pyro_options.infer.counts import ComponentCounts, component_counts
from pyro_options.infer.restarts import best_start, restart_seed
from pyro_options.infer.trainer import TrainConfig, Trainer, set_seed
from pyro_options.persistence.checkpoint import Checkpoint
from pyro_options.skills.from_model import to_skills
from pyro_options.skills.segmentation import IN_USE
from pyro_options.skills.skills import Skills

from .assembly import assemble, make_plan
from .config import DEFAULT_METHOD, MethodConfig, method_config
from .growth import GROWTH_FIELDS
from .presets import with_preset

logger = logging.getLogger(__name__)

#: share of the epochs for which every restart is trained, before the best one continues
BEGINNING = 0.2


def found_skills(model: Any, guide: Any, data: Trajectories, action_names=None, metadata=None) -> Skills:
    """The skills of a trained model, with their statistics on ``data``, the most used first."""
    given = {"packed": data.packed, "action_names": action_names, "metadata": metadata}
    found = to_skills(model, guide, **given)
    found.summary = found.summarize(data)
    return found.used(0.0)


def options_in_use(
    trainer: Trainer, data: Trajectories, num_draws: int = 20, episodes: int = 64, steps: int = 500
) -> ComponentCounts:
    """The posterior over the number of options that cover at least 1 % of the steps, by sampling weights and paths.

    :param episodes: use at most this many first episodes
    :param steps: use at most this many first steps of each
    """
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
    :param restarts: number of random initializations; each is trained for a fifth of the epochs, and the one with the
        best training ELBO continues (with a guide whose objective is no bound, that with the best exact likelihood).
        With a fixed K, a single run often ends in a local optimum
    :param seed: of initialization, splits and training; the same seed gives the same skills
    :param device: ``cpu``, ``cuda`` or ``auto``
    :param progress: show a progress bar
    :param action_names: names of discrete actions, for tables and figures
    :param train: all other training settings; the arguments above override it
    :param checkpoint: file to save the training in, every minute and on Ctrl-C
    :param resume: resume from that file if it exists; the result is the same as without the interruption
    :param config: fields of :class:`~pyro_options.discovery.MethodConfig`: ``num_options=8`` for a fixed K,
        ``hidden=(64,)`` for a shared state network, ``termination_cost=2.0`` for longer options; ``model``, ``guide``
        and ``prior`` by name or as objects, ``growth=Growth(rule, birth, removals)``
    """
    fix = "Make them of your arrays with Trajectories(states, actions, lengths)."
    check(isinstance(trajectories, Trajectories), "Trajectories", type(trajectories).__name__, fix)
    own = {*signature(discover).parameters, *signature(MethodConfig).parameters, *GROWTH_FIELDS}
    for name in config:
        choice(name, "every setting", own)
    named = action_names is None or (trajectories.discrete and len(action_names) == trajectories.num_actions)
    check(named, "one name for each discrete action", action_names)
    data, test = trajectories.split(held_out, seed) if held_out else (trajectories, None)
    config, preset_train = with_preset(preset, data, method, config)
    if method is None and not config.keys() & {"model", "guide", "prior"}:
        method = DEFAULT_METHOD
    described = method_config(method, **config)
    made = [part for part in (described.model, described.guide) if isinstance(part, nn.Module)]
    fix = "Pass a function of Pieces that makes it: every start needs initial values of its own."
    check(restarts == 1 or not made, "restarts=1 with a module that is there already", restarts, fix)
    train = preset_train if train is None else train
    given: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}
    given = {name: value for name, value in given.items() if value is not None}
    saved = _checkpoint(checkpoint, resume)
    interval = _saved_interval(saved)
    plan = make_plan(data, described, train, validation, seed, interval, device=device, progress=progress, **given)
    fixed, settings = plan.config, plan.train

    def begin(number: int, saved: Checkpoint | None = None) -> Trainer:
        set_seed(restart_seed(seed, number))
        parts = assemble(data, fixed, settings)
        return Trainer(parts.model, parts.guide, plan.train_on, settings, parts.growth, plan.judge, saved)

    about = {"method": fixed.to_dict()} | ({"restarts": restarts} if restarts > 1 else {})
    if saved is not None:
        saved = replace(saved, about={**saved.about, **about})
    trainer = _best_trainer(begin, restarts, settings.epochs, saved)
    history = trainer.run()
    skills = found_skills(trainer.model, trainer.guide, data, action_names)
    likelihood = {"train": skills.log_likelihood(data)}
    if test is not None:
        likelihood["held_out"] = skills.log_likelihood(test)
    skills.metadata |= {
        "method": {"name": method} | fixed.to_dict(),
        "train": asdict(settings),
        "restarts": restarts,
        "episodes": {"train": len(data), "held_out": 0 if test is None else len(test)},
        "history": history.to_dict(),
        "growth": [] if trainer.growth is None else [event.to_dict() for event in trainer.growth.history],
        "log_likelihood": likelihood,
        "updates": trainer.num_steps,
        "options_in_use": options_in_use(trainer, data).to_dict(),
        "seconds": history.seconds,
    }
    logger.info("%d options, %d in use: %s nats per step", skills.num_options, skills.used_options, likelihood)
    return skills.to("cpu")


def _best_trainer(begin: Callable[..., Trainer], restarts: int, epochs: int, saved: Checkpoint | None) -> Trainer:
    """The resumed trainer if there is a checkpoint, else the best of several restarts, which are not saved."""
    check_count(restarts, "restarts")
    trainer = begin(0, saved)
    if restarts == 1 or trainer.num_steps or not epochs:
        return trainer
    trainer = best_start(begin, restarts, max(1, round(BEGINNING * epochs)))
    trainer.save_to(saved)
    return trainer


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
