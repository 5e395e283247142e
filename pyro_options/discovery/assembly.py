"""Builds the model, the guide and the growth handler of a method, sized for given demonstrations."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from pyro.nn import PyroModule
from torch import nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.growth.contracts import GrowableGuide, fulfills
from pyro_options.growth.resizing import reweight
from pyro_options.guides.gem import GammaConcentration, GrowableGEM, PointGEM, weights_guide
from pyro_options.handlers.growth import GrowthMessenger
from pyro_options.infer.schedules import Exponential
from pyro_options.infer.train_config import TrainConfig
from pyro_options.options.families import GaussianFamily

from .action_families import resolved_families
from .budget import Budget, state_inputs
from .capacity import AUTO
from .config import MethodConfig, method_config
from .growth import BIRTHS, REMOVALS, RULES, Growth
from .hard_search import start_hard
from .presets import with_preset
from .registry import GUIDES, MODELS, WEIGHTS, Pieces, guide_entry
from .start import start_from_stretches

#: growth checks per training before the final phase, for a rule without a default interval
CHECKS = 6

#: held-out episodes to judge by, if that is no more than a quarter of them
FEWEST_JUDGES = 8

#: share of a default training in which K is fixed, learning rates fall and all episodes are trained on
FINAL_PHASE = 0.15

#: share of a default training with many initial options in which all of them have the same weight: learned weights
#: would neglect most of them before they differ
EVEN_PHASE = 0.1


@dataclass(frozen=True)
class Method:
    """A model, a guide, their growth handler (``None`` for a fixed K), and the settings that they were made with."""

    model: Any
    guide: Any
    growth: GrowthMessenger | None
    config: MethodConfig
    train: TrainConfig


@dataclass(frozen=True)
class Plan:
    """How a method will be trained on given demonstrations."""

    config: MethodConfig  # complete, including the interval of growth checks
    train: TrainConfig
    train_on: Trajectories
    judge: Trajectories | None  # held-out episodes to judge growth and capacity by
    final: Trajectories | None = None  # all episodes, for the final phase, if some judge


def with_families(config: MethodConfig, data: Trajectories) -> MethodConfig:
    """The same settings with the families of all action dimensions, and the start that suits them.

    A stretch of continuous actions determines a linear policy, one of discrete actions does not. A model that exists
    already has its own families and start.
    """
    if isinstance(config.model, nn.Module):
        return replace(config, growth=with_birth(config, like_stretches=False))
    families = resolved_families(data, config.action_families, config.censored)
    real = not isinstance(families, str) and any(isinstance(one, GaussianFamily) for one in families)
    imitates = config.may_imitate and real
    start = config.start or guide_entry(config.guide).start or ("stretches" if imitates else "random")
    # the same births whether hard options or another start go on
    growth = with_birth(config, like_stretches=start == "stretches" or (start == "hard" and imitates))
    return replace(config, action_families=families, start=start, growth=growth)


def with_birth(config: MethodConfig, like_stretches: bool) -> Growth:
    """The settings of growth with a birth, if it was left open.

    :param like_stretches: whether options start from stretches
    """
    if config.growth.birth is not None:
        return config.growth
    alike = not guide_entry(config.guide).splits and config.may_be_born_from_stretches
    from_few = config.growth.starts_with_few and alike
    return replace(config.growth, birth="stretches" if like_stretches or from_few else "halve")


def make_plan(
    data: Trajectories,
    config: MethodConfig,
    train: TrainConfig | None = None,
    validation: float = 0.1,
    seed: int = 0,
    check_every: int | None = None,
    held_back: bool = False,
    **given: Any,
) -> Plan:
    """The decisions of :func:`build` and :func:`~pyro_options.discover` that come before the model is built.

    :param train: training settings; by default from a :class:`Budget` for these demonstrations
    :param validation: share of the episodes to hold out to judge growth by, with a rule that needs it
    :param check_every: interval of growth checks if ``config`` has none
    :param held_back: hold episodes out even if nothing in ``config`` needs them, to compare it with other settings
    :param given: training settings that override ``train``
    """
    check(0 < validation <= 0.5, "a share of episodes for validation in (0, 0.5]", validation)
    tries = config.num_options is None and config.growth.judges_after_training
    judged = tries or config.searches or held_back
    train_on, judge = _split_for_growth(data, validation, seed) if judged else (data, None)
    config = replace(config, **_simplest(config))
    if train is None:
        train = _default_training(train_on, config, given.get("epochs"))
        if judge is not None:
            train = replace(train, final_phase=FINAL_PHASE)
        if tries:
            train = replace(train, even_phase=EVEN_PHASE)
    check(isinstance(train, TrainConfig), "a TrainConfig", train)
    if config.weight_scale is not None:
        given["weight_scale"] = config.weight_scale
    train = replace(train, **given, seed=seed)
    if config.growth.check_every is None:
        updates = train.final_epoch * train_on.num_batches(train.batch_size)
        growth = replace(config.growth, check_every=check_every or max(1, updates // CHECKS))
        config = replace(config, growth=growth)
    return Plan(config, train, train_on, judge, None if judge is None else data)


def _simplest(config: MethodConfig) -> dict[str, Any]:
    """What stands for settings that are left to the search, for a model that is built without it."""
    hidden = () if config.hidden == AUTO else config.hidden
    return {"hidden": hidden, "weight_scale": None if config.weight_scale == AUTO else config.weight_scale}


def _split_for_growth(data: Trajectories, share: float, seed: int) -> tuple[Trajectories, Trajectories | None]:
    """Training episodes, and two or more to judge by; no split if that would hold out more than half.

    Of few episodes more than ``share`` are held out, since few judge badly: up to :data:`FEWEST_JUDGES`, and no more
    than a quarter.
    """
    count = max(2, round(share * len(data)), min(FEWEST_JUDGES, len(data) // 4))
    return data.split(count / len(data), seed) if count <= len(data) // 2 else (data, None)


def _default_training(data: Trajectories, config: MethodConfig, epochs: int | None = None) -> TrainConfig:
    """The :class:`Budget` for these demonstrations, limited to the guide's maximum learning rate.

    :param epochs: if they are given, those over which temperatures fall
    """
    entry = guide_entry(config.guide)
    entropy = entry.entropy_weight if config.num_options is None else 0.0
    assert not isinstance(config.hidden, str)
    found = Budget().train_config(data, config.hidden, config.standardize, config.network is not None)
    rate = min(found.learning_rate, entry.max_learning_rate)
    found = replace(found, epochs=found.epochs if entry.trains else 0, learning_rate=rate)
    if entry.temperatures is not None:
        cooling = Exponential.between(*entry.temperatures, found.epochs if epochs is None else epochs)
        found = replace(found, temperature=cooling)
    return replace(found, entropy_weight=Exponential(entropy))


def build(method: str | None, data: Trajectories, preset: str | None = None, **config: Any) -> Method:
    """Builds a method, sized for ``data``: the same that :func:`~pyro_options.discover` trains.

    :param method: a key of :data:`METHODS`, or ``None`` for a method that ``config`` alone describes
    :param preset: settings by name, ``paper`` or a key of :data:`PRESETS`; ``Method.train`` has those of the training
    :param config: fields of :class:`MethodConfig` that the method does not fix, and of :class:`Growth`
    """
    config, train = with_preset(preset, data, method, config)
    return assemble(data, method_config(method, **config), train)


def assemble(data: Trajectories, config: MethodConfig, train: TrainConfig | None = None) -> Method:
    """Builds model, guide and growth handler of a config, sized for ``data``.

    :param train: the training settings; by default those of :func:`~pyro_options.discover`
    """
    check(data.action_steps is not None, "demonstrations with actions", "none")
    data = data if config.network is not None else data.flat_states()
    config = with_families(config.complete(), data)
    config = replace(config, **_simplest(config))
    if train is None or config.growth.check_every is None:
        plan = make_plan(data, config, train)
        config, train = plan.config, plan.train
    K = _num_options(config)
    own = config.network is not None  # it sees whole states, as they are
    inputs = None if own else state_inputs(data, config.skip_constant, config.standardize)
    pieces = Pieces(data, K, config, config.prior_module(), inputs)
    model = _made(config.model, MODELS, pieces)
    log_weights = _start(model, data, config)
    K = len(log_weights)
    guide = _guide(config, replace(pieces, num_options=K, weights=_weights(config, K), model=model))
    if config.start == "hard" and isinstance(guide.weights, GrowableGEM | PointGEM):
        guide.weights.assign(log_weights)
    elif config.num_options is None and config.growth.judges_after_training:
        reweight([guide], log_weights)  # default sticks would give the first options most of the mass
    growth = None if config.num_options is not None else _growth_handler(data, config.growth, model, guide)
    return Method(model, guide, growth, config, train)


def _start(model: Any, data: Trajectories, config: MethodConfig) -> torch.Tensor:
    """Sets the initial options of a model that was made here, and returns their log weights."""
    if config.start == "hard" and not isinstance(config.model, nn.Module):
        fixed = model.num_options if isinstance(config.guide, nn.Module) else config.num_options
        return start_hard(model, data, fixed, config.growth.max_options)
    if config.start == "stretches" and not isinstance(config.model, nn.Module) and model.num_options > 1:
        start_from_stretches(model.policy, data)
    return torch.zeros(model.num_options)


def _num_options(config: MethodConfig) -> int:
    """Initial K: that of a model or guide that was passed as a module, else from the config."""
    K = config.growth.initial_options if config.num_options is None else config.num_options
    made = {}
    if isinstance(config.model, nn.Module):
        made["model"] = config.model.num_options
    if isinstance(config.guide, nn.Module):
        made["guide"] = fulfills(config.guide, GrowableGuide, "the guide").weights.num_components
    if not made:
        assert K is not None
        return K
    check(len(set(made.values())) == 1, "a model and a guide with as many options", made)
    found = made.popitem()[1]
    check(config.num_options in (None, found), f"num_options = {found}, as the module has,", config.num_options)
    return found


def _made(part: Any, known: Any, pieces: Pieces) -> Any:
    """A module: passed as such, or made by its factory or by name."""
    if isinstance(part, nn.Module):
        return part
    return (known[part] if isinstance(part, str) else part)(pieces)


def _weights(config: MethodConfig, num_options: int) -> PyroModule:
    if isinstance(config.model, str) and config.model in WEIGHTS:
        return WEIGHTS[config.model](num_options)
    weights = weights_guide(config.prior_name, num_options, config.point, config.stick_jitter)
    alpha_prior = config.alpha_prior if isinstance(config.prior, str) else getattr(config.prior, "alpha_prior", None)
    if alpha_prior is not None:
        shape, rate = (float(x) for x in alpha_prior)
        weights.concentration = GammaConcentration(shape, rate)
    return weights


def _guide(config: MethodConfig, pieces: Pieces) -> Any:
    makers = {name: entry.make for name, entry in GUIDES.items()}
    return fulfills(_made(config.guide, makers, pieces), GrowableGuide, "the guide")


def _growth_handler(data: Trajectories, growth: Growth, model: Any, guide: Any) -> GrowthMessenger:
    max_rows = max(8, min(128, 4800 // data.typical_length))
    rule = RULES[growth.rule]() if isinstance(growth.rule, str) else growth.rule
    birth = BIRTHS[growth.birth](max_rows) if isinstance(growth.birth, str) else growth.birth
    removals = [REMOVALS[one](max_rows) if isinstance(one, str) else one for one in growth.removals or ()]
    assert growth.check_every is not None and growth.patience is not None and growth.settle is not None
    schedule = growth.check_every, growth.patience, growth.settle, growth.max_options
    return GrowthMessenger([model, guide], rule, birth, removals, *schedule, site="actions")
