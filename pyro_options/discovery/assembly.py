"""Puts a model, a guide and a growth handler together, sized for given data."""

from dataclasses import dataclass

import torch
from pyro.nn import PyroModule
from torch import nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.growth.resizing import reweight
from pyro_options.guides.exact import Exact
from pyro_options.guides.gem import GammaConcentration, weights_guide
from pyro_options.guides.segments import RelaxedSegments
from pyro_options.handlers.growth import GrowthMessenger
from pyro_options.models.gem import GEM
from pyro_options.models.option_hmm import OptionHMM
from pyro_options.models.segments import CompILE
from pyro_options.nn.networks import mlp
from pyro_options.nn.state_embedding import StateEmbedding
from pyro_options.nn.varying_inputs import VaryingInputs
from pyro_options.options.encoder import PathEncoder
from pyro_options.options.policies import CategoricalPolicy, GaussianPolicy, Termination
from pyro_options.segments.encoder import SegmentEncoder

from .config import BIRTHS, GROWTH_DEFAULTS, GUIDES, REMOVALS, RULES, MethodConfig, named_config

#: numbers in a state above which an encoder embeds it; fewer cost next to nothing
WIDE = 64


@dataclass(frozen=True)
class Method:
    """A model, a guide, and what grows them (``None`` for a fixed K)."""

    model: OptionHMM | CompILE
    guide: PyroModule
    growth: GrowthMessenger | None


def build(name: str, data: Trajectories, **config) -> Method:
    """The method called ``name``, sized for ``data``.

    :param config: fields of :class:`MethodConfig` that the name leaves open
    """
    return assemble(data, named_config(name, config))


def assemble(data: Trajectories, config: MethodConfig) -> Method:
    """Model, guide and growth handler of a config, sized for ``data``."""
    check(data.actions is not None, "demonstrations with actions", "none")
    K = config.initial_options if config.num_options is None else config.num_options
    inputs = varying_inputs(data) if config.skip_constant else None
    policy = (CategoricalPolicy if data.discrete else GaussianPolicy)(
        data.state_dim, K, data.action_dim, config.hidden, _network(inputs, config)
    )
    model = _model(data, policy, config, inputs)
    guide = _guide(data, K, config, inputs)
    if config.num_options is not None:
        return Method(model, guide, None)
    if config.rule == "trial":
        reweight([guide], torch.zeros(K))  # even: sticks that halve what is left would give the first ones most of it
    rule = RULES[config.rule](config.delta)
    max_rows = max(8, min(128, 4800 // data.stored.shape[1]))
    birth = BIRTHS[config.birth](config.birth_learning_rate, max_rows)
    removals = [REMOVALS[name](max_rows) for name in config.removals or ()]
    schedule = config.check_every, config.patience, GROWTH_DEFAULTS[config.rule].settle
    growth = GrowthMessenger([model, guide], rule, birth, removals, *schedule, config.max_options, site="actions")
    return Method(model, guide, growth)


def varying_inputs(data: Trajectories) -> VaryingInputs:
    """The entries of a state that vary in these demonstrations."""
    if data.packed:
        return VaryingInputs.from_bytes(data.stored, data.mask)
    return VaryingInputs.from_states(data.states, data.mask)


def _network(inputs: VaryingInputs | None, config: MethodConfig) -> nn.Module | None:
    """The state network behind a selection of inputs; ``None`` for what a policy makes itself."""
    if inputs is None or not config.hidden:
        return inputs
    return nn.Sequential(inputs, *mlp(len(inputs.index), config.hidden)[0])


def _prior(config: MethodConfig) -> str | GEM:
    """The prior over weights, by name unless it has settings of its own."""
    if config.alpha_prior is None and not config.discount:
        return config.prior
    return GEM(config.alpha, discount=config.discount, alpha_prior=config.alpha_prior)


def _encoder_inputs(data: Trajectories, config: MethodConfig, inputs: VaryingInputs | None):
    """What reads the states for an encoder; ``None`` for the encoder itself."""
    width, units = data.state_dim if inputs is None else inputs.out_features, config.embedding
    if units is None:
        units = 12 if width > WIDE else 0
    return StateEmbedding(data.state_dim, units, inputs) if units else inputs


def _model(data: Trajectories, policy, config: MethodConfig, inputs: VaryingInputs | None) -> OptionHMM | CompILE:
    if config.guide == "segments":
        check(config.termination_cost == 0, "no termination_cost with CompILE", config.termination_cost)
        mean = data.num_steps / len(data)
        length = mean / config.num_segments if config.segment_length is None else config.segment_length
        return CompILE(policy, config.num_segments, length, _prior(config), config.alpha, config.max_duration)
    termination = Termination(data.state_dim, policy.num_options, config.hidden, _network(inputs, config))
    return OptionHMM(policy, termination, _prior(config), config.alpha, config.termination_cost)


def _guide(data: Trajectories, num_options: int, config: MethodConfig, inputs: VaryingInputs | None) -> PyroModule:
    weights = weights_guide(config.prior, num_options, config.point)
    if config.alpha_prior is not None:
        weights.concentration = GammaConcentration(*config.alpha_prior)
    if config.guide == "exact":
        return Exact(weights)
    step_dim = data.state_dim + data.action_dim
    sizes = config.lstm_size, config.encoder_hidden
    if config.guide == "segments":
        return RelaxedSegments(weights, SegmentEncoder(step_dim, num_options, *sizes, inputs), config.num_segments)
    encoder = PathEncoder(step_dim, num_options, *sizes, inputs=_encoder_inputs(data, config, inputs))
    return GUIDES[config.guide](weights, encoder, coupled=config.coupled)
