"""``discover``: from demonstrations to skills in one call."""

import logging
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any

from torch import nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import DiscoveryWarning, check, check_count, choice
from pyro_options.infer.callbacks import Callback, Callbacks, Phase
from pyro_options.infer.parallel import join_workers
from pyro_options.infer.progress import with_progress
from pyro_options.infer.train_config import TrainConfig
from pyro_options.persistence.checkpoint import Checkpoint
from pyro_options.skills.from_model import to_skills
from pyro_options.skills.skills import Skills

from .action_families import looks_one_hot
from .assembly import with_families
from .capacity import AUTO
from .config import DEFAULT_METHOD, MethodConfig, method_config
from .growth import GROWTH_FIELDS
from .outcome import data_record, training_record, trust_record, usage_record, with_summary
from .presets import with_preset
from .resuming import checkpoint_to, saved_capacity, saved_interval, saved_restarts
from .search import MIN_EPOCHS
from .trainings import Trainings
from .trust import input_warnings
from .units import Units

logger = logging.getLogger(__name__)

#: restarts of the default method
RESTARTS = 4


def _check_arguments(trajectories: Trajectories, epochs: int | None, config: dict[str, Any]) -> None:
    fix = "Make them of your arrays with Trajectories(states, actions, lengths)."
    if hasattr(trajectories, "columns"):
        fix = "Read data frames with from_dataframe(frame, episode=…, actions=…)."
    check(isinstance(trajectories, Trajectories), "Trajectories", type(trajectories).__name__, fix)
    own = {*signature(discover).parameters, *signature(MethodConfig).parameters, *GROWTH_FIELDS}
    for name in config:
        choice(name, "every setting", own)
    check(trajectories.action_steps is not None, "demonstrations with actions", "none")
    if epochs is not None:
        check_count(epochs, "epochs")


def _warn_of_one_hot(data: Trajectories) -> None:
    """Warns if continuous actions are discrete ones that were encoded."""
    if data.discrete or not all(looks_one_hot(part) for part in data.given_actions().chunks()):
        return
    text = "Actions are one-hot: every one is zero but for a single one. They are modelled as continuous dimensions; "
    warnings.warn(f"{text}pass actions.argmax(-1), integers, if they are discrete.", DiscoveryWarning, stacklevel=3)


def _searched_by_default(method: str | None, train: TrainConfig | None, config: dict[str, Any]) -> dict[str, Any]:
    """Settings that the default method searches for if nothing is said about them."""
    if method != DEFAULT_METHOD or train is not None or config.keys() & {"hidden", "weight_scale"}:
        return {}
    return {"weight_scale": AUTO} | ({} if config.get("network") is not None else {"hidden": AUTO})


def _is_made(config: MethodConfig) -> bool:
    """Whether the model, the guide or the state network is a module that exists already."""
    return any(isinstance(part, nn.Module) for part in (config.model, config.guide, config.network))


def _restarts(given: int | None, method: str | None, long: bool, made: bool, saved: Checkpoint | None) -> int:
    """The number of restarts; by default that of the training to resume, or what the method deserves.

    :param long: whether training is long enough for restarts to pay
    :param made: whether there is a module that cannot be made again
    """
    if given is None:
        given = saved_restarts(saved, RESTARTS if method == DEFAULT_METHOD and long and not made else 1)
    fix = "Pass a function that makes it: every start needs initial values of its own."
    check(given == 1 or not made, "restarts=1 with a module that is there already", given, fix)
    return given


def _units(config: MethodConfig, data: Trajectories) -> Units | None:
    """The units of the demonstrations, unless the method reads states and actions as they are.

    Modules and models of your own have their own units.
    """
    named = isinstance(config.model, str) and not isinstance(config.guide, nn.Module)
    applies = config.standardize and named
    return Units.of(data, config.action_families, config.network is not None) if applies else None


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
    cuda_graph: bool = False,
    progress: bool = True,
    trust: bool = True,
    action_names: Sequence[str] | None = None,
    train: TrainConfig | None = None,
    checkpoint: str | os.PathLike | Checkpoint | None = None,
    resume: bool = False,
    callbacks: Iterable[Callback] = (),
    **config,
) -> Skills:
    """Discovers options in demonstrations, and how many there are.

    Processes that torchrun started divide the work, and each of them returns the same skills; the first one writes
    checkpoints, shows progress and warns.

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
    :param cuda_graph: on CUDA, record the operations of a step once for each K and replay them, which takes one launch
        instead of hundreds; for episodes of similar length, in one process
    :param progress: show a progress bar of every training, with what it is for
    :param trust: also measure how far the result can be trusted, see :class:`~pyro_options.skills.Trust`: trains single
        policies for comparison, and, if K is open, two shorter runs from other starts. Warnings are issued as
        :class:`~pyro_options.errors.DiscoveryWarning`. Trainings of fewer than 10 epochs are not measured
    :param action_names: names of discrete actions, or of the dimensions of other actions, for tables and figures; by
        default those of the trajectories
    :param train: all other training settings; the arguments above override it
    :param checkpoint: file to save the training in, every minute, on Ctrl-C and on SIGTERM
    :param resume: resume from that file if it exists; the result is the same as without the interruption
    :param callbacks: told which phase runs, of every epoch and of every growth check, see
        :class:`~pyro_options.infer.Callback`; :class:`~pyro_options.infer.TensorBoard` is one
    :param config: fields of :class:`~pyro_options.discovery.MethodConfig`: ``num_options=8`` for a fixed K,
        ``hidden=(64,)`` for a shared state network, ``network="cnn"`` for images (or a network of your own, a module or
        a function of the state shape that makes one), ``action_families`` for the distribution of each action dimension
        (:func:`~pyro_options.discovery.resolved_families`), ``termination_cost=2.0`` for longer options;
        ``model``, ``guide`` and ``prior`` by name or as objects, ``growth=Growth(rule, birth, removals)``
    """
    _check_arguments(trajectories, epochs, config)
    _warn_of_one_hot(trajectories)
    trajectories = trajectories.with_names(action_names=action_names)
    if config.get("network") is None:
        trajectories = trajectories.flat_states()
    data, test = trajectories.split(held_out, seed) if held_out else (trajectories, None)
    config, preset_train = with_preset(preset, data, method, config)
    train = preset_train if train is None else train
    if method is None and not config.keys() & {"model", "guide", "prior"}:
        method = DEFAULT_METHOD
    described = method_config(method, **config | _searched_by_default(method, train, config))
    made = _is_made(described)
    saved = checkpoint_to(checkpoint, resume)
    long = train is None and (epochs is None or epochs >= MIN_EPOCHS)
    restarts = _restarts(restarts, method, long, made, saved)
    check_count(restarts, "restarts")
    described = with_families(described, trajectories)  # held-out episodes must have values that the policy knows
    given: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate}
    given = {name: value for name, value in given.items() if value is not None}
    given |= {"device": device, "progress": progress} | ({"cuda_graph": True} if cuda_graph else {})
    known, interval = saved_capacity(saved, described), saved_interval(saved)
    workers = join_workers()
    told = with_progress(Callbacks(callbacks), progress) if workers.writes else Callbacks()
    units = _units(described, data)
    seen, seen_test, known = (data, test, known) if units is None else units.of_discovery(data, test, known)
    held = described.searches
    trainings = Trainings(seen, known, train, validation, seed, interval, held, restarts, given, told, workers)

    plan, first, trials = trainings.searched()
    in_units = plan if units is None else units.plan(plan)
    about = {"method": in_units.config.to_dict()} | ({"restarts": restarts} if restarts > 1 else {})
    if saved is not None:
        saved = replace(saved, about={**saved.about, **about})
    trainer = trainings.best(plan, saved, first)
    told.on_phase(Phase("training"))
    trainer.run()
    trainer = trainings.challenged(plan, trainer)
    raw = to_skills(trainer.model, trainer.guide, packed=data.packed, action_names=trajectories.action_names)
    skills = with_summary(raw if units is None else units.restore(raw), data)

    measures = trust and plan.train.epochs >= MIN_EPOCHS
    # growth from one option takes the whole training, so that shorter ones would find fewer
    repeats = measures and described.num_options is None and plan.config.growth.judges_after_training and not made
    others = trainings.others(plan) if repeats else []
    skills.metadata |= training_record(trainer, in_units, method, restarts, trials, units)
    skills.metadata |= data_record(skills, data, test)
    if trajectories.state_names is not None:
        skills.metadata["state_names"] = list(trajectories.state_names)
    record = None
    if measures:
        record = trust_record(raw, trainer, plan, seen, seen_test, others, told, input_warnings(data))
        skills.metadata["trust"] = record.to_dict()
    skills.metadata |= usage_record(trainer, seen, others, record)
    if record is not None:
        for text in record.warnings if workers.writes else ():
            warnings.warn(text, DiscoveryWarning, stacklevel=2)
    likelihood = skills.metadata["log_likelihood"]
    logger.info("%d options, %d in use: %s nats per step", skills.num_options, skills.used_options, likelihood)
    return skills.to("cpu")
