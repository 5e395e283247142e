"""Builds the model, the guide and the growth handler of a method, sized for given demonstrations."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from pyro.nn import PyroModule
from torch import nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.growth.contracts import GrowableGuide, fulfills
from pyro_options.growth.resizing import reweight
from pyro_options.guides.gem import GammaConcentration, weights_guide
from pyro_options.handlers.growth import GrowthMessenger
from pyro_options.infer.schedules import Exponential
from pyro_options.infer.trainer import TrainConfig

from .budget import Budget, state_inputs
from .config import MethodConfig, method_config
from .growth import BIRTHS, REMOVALS, RULES, Growth
from .presets import with_preset
from .registry import GUIDES, MODELS, Pieces, guide_entry

#: growth checks per training, for a rule without a default interval
CHECKS = 6


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
    judge: Trajectories | None  # held-out episodes to judge growth by, if the rule needs them


def make_plan(
    data: Trajectories,
    config: MethodConfig,
    train: TrainConfig | None = None,
    validation: float = 0.1,
    seed: int = 0,
    check_every: int | None = None,
    **given: Any,
) -> Plan:
    """The decisions of :func:`build` and :func:`~pyro_options.discover` that come before the model is built.

    :param train: training settings; by default from a :class:`Budget` for these demonstrations
    :param validation: share of the episodes to hold out to judge growth by, with a rule that needs it
    :param check_every: interval of growth checks if ``config`` has none
    :param given: training settings that override ``train``
    """
    tries = config.num_options is None and config.growth.judges_after_training
    train_on, judge = _split_for_growth(data, validation, seed) if tries else (data, None)
    if train is None:
        train = _default_training(train_on, config)
    check(isinstance(train, TrainConfig), "a TrainConfig", train)
    train = replace(train, **given, seed=seed)
    if config.growth.check_every is None:
        updates = train.epochs * math.ceil(len(train_on) / train.batch_size)
        growth = replace(config.growth, check_every=check_every or max(1, updates // CHECKS))
        config = replace(config, growth=growth)
    return Plan(config, train, train_on, judge)


def _split_for_growth(data: Trajectories, share: float, seed: int) -> tuple[Trajectories, Trajectories | None]:
    """Training episodes, and two or more to judge growth by; no split if that would hold out more than half."""
    check(0 < share < 1, "a share of episodes for validation in (0, 1)", share)
    count = max(2, round(share * len(data)))
    return data.split(count / len(data), seed) if count <= len(data) // 2 else (data, None)


def _default_training(data: Trajectories, config: MethodConfig) -> TrainConfig:
    """The :class:`Budget` for these demonstrations, limited to the guide's maximum learning rate."""
    entry = guide_entry(config.guide)
    entropy = entry.entropy_weight if config.num_options is None else 0.0
    found = Budget().train_config(data, config.hidden, config.standardize)
    rate = min(found.learning_rate, entry.max_learning_rate)
    return replace(found, entropy_weight=Exponential(entropy), learning_rate=rate)


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
    check(data.actions is not None, "demonstrations with actions", "none")
    config = config.complete()
    if train is None or config.growth.check_every is None:
        plan = make_plan(data, config, train)
        config, train = plan.config, plan.train
    K = _num_options(config)
    inputs = state_inputs(data, config.skip_constant, config.standardize)
    pieces = Pieces(data, K, config, config.prior_module(), inputs)
    model = _made(config.model, MODELS, pieces)
    guide = _guide(config, replace(pieces, weights=_weights(config, K), model=model))
    growth = None if config.num_options is not None else _growth_handler(data, config.growth, model, guide, K)
    return Method(model, guide, growth, config, train)


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
    weights = weights_guide(config.prior_name, num_options, config.point, config.stick_jitter)
    alpha_prior = config.alpha_prior if isinstance(config.prior, str) else getattr(config.prior, "alpha_prior", None)
    if alpha_prior is not None:
        shape, rate = (float(x) for x in alpha_prior)
        weights.concentration = GammaConcentration(shape, rate)
    return weights


def _guide(config: MethodConfig, pieces: Pieces) -> Any:
    makers = {name: entry.make for name, entry in GUIDES.items()}
    return fulfills(_made(config.guide, makers, pieces), GrowableGuide, "the guide")


def _growth_handler(data: Trajectories, growth: Growth, model: Any, guide: Any, K: int) -> GrowthMessenger:
    max_rows = max(8, min(128, 4800 // data.stored.shape[1]))
    if growth.judges_after_training:
        reweight([guide], torch.zeros(K))  # equal weights: default sticks would give the first options most of the mass
    rule = RULES[growth.rule]() if isinstance(growth.rule, str) else growth.rule
    birth = BIRTHS[growth.birth](max_rows) if isinstance(growth.birth, str) else growth.birth
    removals = [REMOVALS[one](max_rows) if isinstance(one, str) else one for one in growth.removals or ()]
    assert growth.check_every is not None and growth.patience is not None and growth.settle is not None
    schedule = growth.check_every, growth.patience, growth.settle, growth.max_options
    return GrowthMessenger([model, guide], rule, birth, removals, *schedule, site="actions")
