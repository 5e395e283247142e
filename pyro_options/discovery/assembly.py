"""Puts a model, a guide and a growth handler together, sized for given demonstrations."""

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

from .budget import Budget, varying_inputs
from .config import MethodConfig, method_config
from .growth import BIRTHS, REMOVALS, RULES, Growth
from .registry import GUIDES, MODELS, Pieces, guide_entry

#: growth checks in a training, with a rule that has no interval of its own
CHECKS = 6


@dataclass(frozen=True)
class Method:
    """A model, a guide, what grows them (``None`` for a fixed K), and the settings that they come from."""

    model: Any
    guide: Any
    growth: GrowthMessenger | None
    config: MethodConfig
    train: TrainConfig


@dataclass(frozen=True)
class Plan:
    """How a method is trained on given demonstrations."""

    config: MethodConfig  # complete, the interval of growth checks included
    train: TrainConfig
    train_on: Trajectories
    judge: Trajectories | None  # episodes to judge growth by, if the rule needs some of their own


def make_plan(
    data: Trajectories,
    config: MethodConfig,
    train: TrainConfig | None = None,
    validation: float = 0.1,
    seed: int = 0,
    check_every: int | None = None,
    **given: Any,
) -> Plan:
    """Everything that :func:`build` and :func:`~pyro_options.discover` decide before there is a model.

    :param train: every setting of training; by default a :class:`Budget` for these demonstrations
    :param validation: share of the episodes to judge growth by, with a rule that needs it
    :param check_every: the interval of growth checks, if nobody has chosen one
    :param given: settings of training that go before ``train``
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
    """Episodes to train on and to judge growth by; too few to spare two are all trained on, and judge themselves."""
    check(0 < share < 1, "a share of episodes for validation in (0, 1)", share)
    count = max(2, round(share * len(data)))
    return data.split(count / len(data), seed) if count <= len(data) // 2 else (data, None)


def _default_training(data: Trajectories, config: MethodConfig) -> TrainConfig:
    """The budget for these demonstrations, within what the guide bears."""
    entry = guide_entry(config.guide)
    entropy = entry.entropy_weight if config.num_options is None else 0.0
    found = Budget().train_config(data, config.hidden)
    rate = min(found.learning_rate, entry.max_learning_rate)
    return replace(found, entropy_weight=Exponential(entropy), learning_rate=rate)


def build(method: str | None, data: Trajectories, **config: Any) -> Method:
    """A method, sized for ``data``: the same as :func:`~pyro_options.discover` trains.

    :param method: a key of :data:`METHODS`, or ``None`` for what the settings alone describe
    :param config: fields of :class:`MethodConfig` that the name leaves open, and of :class:`Growth`
    """
    return assemble(data, method_config(method, **config))


def assemble(data: Trajectories, config: MethodConfig, train: TrainConfig | None = None) -> Method:
    """Model, guide and growth handler of a config, sized for ``data``.

    :param train: how it will be trained; by default as :func:`~pyro_options.discover` would
    """
    check(data.actions is not None, "demonstrations with actions", "none")
    config = config.complete()
    if train is None or config.growth.check_every is None:
        plan = make_plan(data, config, train)
        config, train = plan.config, plan.train
    K = _num_options(config)
    inputs = varying_inputs(data) if config.skip_constant else None
    pieces = Pieces(data, K, config, config.prior_module(), inputs)
    model = _made(config.model, MODELS, pieces)
    guide = _guide(config, replace(pieces, weights=_weights(config, K)))
    growth = None if config.num_options is not None else _growth_handler(data, config.growth, model, guide, K)
    return Method(model, guide, growth, config, train)


def _num_options(config: MethodConfig) -> int:
    """K to start from, which a module that is there already has decided."""
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
    """A module, made by name, by a function, or there already."""
    if isinstance(part, nn.Module):
        return part
    return (known[part] if isinstance(part, str) else part)(pieces)


def _weights(config: MethodConfig, num_options: int) -> PyroModule:
    weights = weights_guide(config.prior_name, num_options, config.point)
    alpha_prior = config.alpha_prior if isinstance(config.prior, str) else getattr(config.prior, "alpha_prior", None)
    if alpha_prior is not None:
        weights.concentration = GammaConcentration(*(float(x) for x in alpha_prior))
    return weights


def _guide(config: MethodConfig, pieces: Pieces) -> Any:
    makers = {name: entry.make for name, entry in GUIDES.items()}
    return fulfills(_made(config.guide, makers, pieces), GrowableGuide, "the guide")


def _growth_handler(data: Trajectories, growth: Growth, model: Any, guide: Any, K: int) -> GrowthMessenger:
    max_rows = max(8, min(128, 4800 // data.stored.shape[1]))
    if growth.judges_after_training:
        reweight([guide], torch.zeros(K))  # even: sticks that halve what is left would give the first ones most of it
    rule = RULES[growth.rule]() if isinstance(growth.rule, str) else growth.rule
    birth = BIRTHS[growth.birth](max_rows) if isinstance(growth.birth, str) else growth.birth
    removals = [REMOVALS[one](max_rows) if isinstance(one, str) else one for one in growth.removals or ()]
    assert growth.check_every is not None and growth.patience is not None and growth.settle is not None
    schedule = growth.check_every, growth.patience, growth.settle, growth.max_options
    return GrowthMessenger([model, guide], rule, birth, removals, *schedule, site="actions")
