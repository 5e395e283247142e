"""The registry of models and guides. To add one, write its file in ``models/`` or ``guides/`` and add an entry here."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from pyro.nn import PyroModule
from torch import nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.growth.contracts import fulfills
from pyro_options.guides.amortized import Relaxed, ScoreFunction, StraightThrough
from pyro_options.guides.estimated import GumbelRao, ImportanceWeighted, LeaveOneOut, StickTheLanding, WakeSleep
from pyro_options.guides.exact import Exact
from pyro_options.guides.hdp import GrowableHDP
from pyro_options.guides.segments import RelaxedSegments
from pyro_options.guides.structured import Structured, StructuredMarginal
from pyro_options.models.hdp import HDP
from pyro_options.models.option_hmm import OptionHMM
from pyro_options.models.segments import CompILE
from pyro_options.models.sticky_option_hmm import StickyOptionHMM
from pyro_options.nn.networks import mlp
from pyro_options.nn.standardized_inputs import StandardizedInputs
from pyro_options.nn.state_embedding import StateEmbedding
from pyro_options.nn.state_network import make_network
from pyro_options.nn.varying_inputs import VaryingInputs
from pyro_options.options.encoder import PathEncoder
from pyro_options.options.evidence import EvidenceModel
from pyro_options.options.families import GaussianFamily, bounds_of
from pyro_options.options.message_encoder import MessageEncoder
from pyro_options.options.policies import CategoricalPolicy, GaussianPolicy, MixedPolicy, OptionPolicy, Termination
from pyro_options.segments.encoder import SegmentEncoder

from .action_families import resolved_families
from .budget import action_units

if TYPE_CHECKING:
    from .config import MethodConfig

#: encoders embed states with more entries than this; smaller states are cheap without
WIDE = 64

#: units of that embedding
EMBEDDING = 12


@dataclass(frozen=True)
class Pieces:
    """The argument of every factory of a model or a guide, including users' own.

    :param data: the demonstrations, for their dimensions
    :param num_options: initial K
    :param config: the settings of the method
    :param prior: over the weights, by name or as a module
    :param inputs: layer that selects and standardizes entries of a state; ``None`` for states as they are
    :param weights: the posterior over the weights, for guides
    :param model: for guides that are built on its evidence, see :class:`~pyro_options.options.EvidenceModel`
    """

    data: Trajectories
    num_options: int
    config: "MethodConfig"
    prior: str | PyroModule
    inputs: VaryingInputs | None
    weights: PyroModule | None = None
    model: Any = None

    def network(self) -> nn.Module | None:
        """The selection of inputs and the state network behind it; ``None`` lets the policy build its own network."""
        data, own = self.data, self.config.network
        if own is not None:
            is_bytes = data.state_steps.dtype == torch.uint8 and not data.packed
            return make_network(own, data.state_shape or (data.state_dim,), is_bytes)
        if self.inputs is None or not self.config.hidden:
            return self.inputs
        assert not isinstance(self.config.hidden, str)
        return nn.Sequential(self.inputs, *mlp(len(self.inputs.index), self.config.hidden)[0])

    def policy(self) -> OptionPolicy:
        """Low-level policies for the actions of the demonstrations."""
        data, hidden, network = self.data, self.config.hidden, self.network()
        sizes = data.state_dim, self.num_options
        if isinstance(data.num_actions, int):
            return CategoricalPolicy(*sizes, data.num_actions, hidden, network)
        families = resolved_families(data, self.config.action_families, self.config.censored)
        assert not isinstance(families, str)
        if data.discrete:
            return MixedPolicy(*sizes, families, hidden, network, integers=True)
        real = [d for d, family in enumerate(families) if isinstance(family, GaussianFamily)]
        raw = torch.zeros(len(families)), torch.ones(len(families))
        center, unit = (value[real] for value in (action_units(data) if self.config.standardize else raw))
        if len(real) < len(families):
            return MixedPolicy(*sizes, families, hidden, network, center=center, unit=unit)
        low, high = bounds_of(families)
        return GaussianPolicy(*sizes, len(families), hidden, network, center=center, unit=unit, low=low, high=high)

    def termination(self, policy: OptionPolicy) -> Termination:
        """Terminations; a network of the user's own is shared with the policies, since it is the costly part."""
        network = self.network() if self.config.network is None else policy.network
        return Termination(self.data.state_dim, self.num_options, self.config.hidden, network)

    def action_inputs(self) -> StandardizedInputs | None:
        """The layer between continuous actions and encoder; ``None`` for actions as they are."""
        if self.data.discrete or not self.config.standardize:
            return None
        A = self.data.action_dim
        return StandardizedInputs(torch.arange(A), A, *action_units(self.data))

    @property
    def step_dim(self) -> int:
        """Size of a concatenated state and encoded action."""
        return self.data.state_dim + self.data.action_dim

    def encoder_inputs(self) -> StateEmbedding | VaryingInputs | None:
        """The layer between states and encoder: an embedding or a selection of inputs; ``None`` for none."""
        inputs, units = self.inputs, self.config.embedding
        if self.config.network is not None:
            return StateEmbedding(self.data.state_dim, units or EMBEDDING, self.network())
        if units is None:
            width = self.data.state_dim if inputs is None else inputs.out_features
            units = EMBEDDING if width > WIDE else 0
        return StateEmbedding(self.data.state_dim, units, inputs) if units else inputs


def _options(pieces: Pieces) -> OptionHMM:
    config, policy = pieces.config, pieces.policy()
    termination = pieces.termination(policy)
    return OptionHMM(policy, termination, pieces.prior, config.alpha, config.termination_cost)


def _sticky_options(pieces: Pieces) -> StickyOptionHMM:
    config, policy = pieces.config, pieces.policy()
    check(config.termination_cost == 0, "no termination_cost with sticky options", config.termination_cost)
    termination = pieces.termination(policy)
    return StickyOptionHMM(policy, termination, HDP(config.alpha, stickiness=config.stickiness))


def _segments(pieces: Pieces) -> CompILE:
    config = pieces.config
    check(config.termination_cost == 0, "no termination_cost with CompILE", config.termination_cost)
    mean = pieces.data.num_steps / len(pieces.data)
    length = mean / config.num_segments if config.segment_length is None else config.segment_length
    return CompILE(pieces.policy(), config.num_segments, length, pieces.prior, config.alpha, config.max_duration)


def _exact(pieces: Pieces) -> Exact:
    assert pieces.weights is not None
    return Exact(pieces.weights)


def _amortized(kind: type, pieces: Pieces) -> PyroModule:
    config = pieces.config
    sizes = pieces.step_dim, pieces.num_options, config.lstm_size, config.encoder_hidden
    inputs, actions = pieces.encoder_inputs(), pieces.action_inputs()
    encoder = PathEncoder(*sizes, inputs=inputs, actions=actions, random_columns=config.random_columns)
    own = {}
    if kind is WakeSleep:
        own["evidence"] = fulfills(pieces.model, EvidenceModel, "the model of this guide").evidence
    return kind(pieces.weights, encoder, coupled=config.coupled, infer_first=config.infer_first, **own)


def _structured(kind: type, pieces: Pieces) -> PyroModule:
    config, model = pieces.config, fulfills(pieces.model, EvidenceModel, "the model of this guide")
    sizes = pieces.step_dim, pieces.num_options, config.lstm_size, config.encoder_hidden[0]
    encoder = MessageEncoder(*sizes, inputs=pieces.encoder_inputs(), actions=pieces.action_inputs())
    return kind(pieces.weights, encoder, model.evidence, config.lookahead)


def _relaxed_segments(pieces: Pieces) -> RelaxedSegments:
    config = pieces.config
    sizes = pieces.step_dim, pieces.num_options, config.lstm_size, config.encoder_hidden
    return RelaxedSegments(
        pieces.weights, SegmentEncoder(*sizes, pieces.inputs, pieces.action_inputs()), config.num_segments
    )


@dataclass(frozen=True)
class GuideEntry:
    """A guide and its training defaults, which are chosen by measurement.

    :param kind: the class of the guide, to find the entry of an object
    :param make: makes the guide from :class:`Pieces`
    :param models: names of the models that it approximates the posterior of
    :param rule: default growth rule; not ``trial`` with an encoder that is not built on the model's evidence: it learns
        too slowly for a trial to judge
    :param entropy_weight: initial λ_ent while K grows; it keeps an encoder from collapsing to few options, so the exact
        guide needs none
    :param temperatures: of a relaxation, at the beginning and at the end of training; by default the schedule of
        :class:`~pyro_options.infer.TrainConfig`, which is the paper's
    :param max_learning_rate: upper limit for the encoder, where a :class:`Budget` for linear policies would give more
    :param start: the start that it needs, see :attr:`MethodConfig.start`; ``None`` for any
    :param trains: whether it is trained after the start, by default
    :param splits: whether copies of a single trained option come to differ. Its terminations have vanished, since the
        options not created yet have a part of the mass; amortized guides do not get out of that
    """

    kind: type | None
    make: Callable[[Pieces], PyroModule]
    models: tuple[str, ...] = ("options",)
    rule: str = "evidence"
    entropy_weight: float = 5.0
    temperatures: tuple[float, float] | None = None
    max_learning_rate: float = math.inf
    start: str | None = None
    trains: bool = True
    splits: bool = False


#: every model by name
MODELS: Mapping[str, Callable[[Pieces], Any]] = {
    "options": _options,
    "sticky-options": _sticky_options,
    "segments": _segments,
}

#: posteriors over weights of models with several weight vectors, by the name of the model; the others have one vector
WEIGHTS: Mapping[str, Callable[[int], PyroModule]] = {"sticky-options": GrowableHDP}

#: every guide by name
GUIDES: Mapping[str, GuideEntry] = {
    "exact": GuideEntry(Exact, _exact, ("options", "sticky-options"), rule="trial", entropy_weight=0.0, splits=True),
    "hard": GuideEntry(Exact, _exact, rule="trial", entropy_weight=0.0, start="hard", trains=False, splits=True),
    "paper": GuideEntry(Relaxed, partial(_amortized, Relaxed)),
    "relaxed": GuideEntry(
        Structured, partial(_structured, Structured), rule="trial", entropy_weight=0.0, temperatures=(0.3, 0.03)
    ),
    "relaxed-marginal": GuideEntry(
        StructuredMarginal, partial(_structured, StructuredMarginal), rule="trial", entropy_weight=0.0
    ),
    "score-function": GuideEntry(ScoreFunction, partial(_amortized, ScoreFunction)),
    "straight-through": GuideEntry(StraightThrough, partial(_amortized, StraightThrough)),
    "gumbel-rao": GuideEntry(GumbelRao, partial(_amortized, GumbelRao)),
    "stick-the-landing": GuideEntry(StickTheLanding, partial(_amortized, StickTheLanding)),
    "leave-one-out": GuideEntry(LeaveOneOut, partial(_amortized, LeaveOneOut)),
    "importance-weighted": GuideEntry(ImportanceWeighted, partial(_amortized, ImportanceWeighted)),
    "wake-sleep": GuideEntry(WakeSleep, partial(_amortized, WakeSleep)),
    "segments": GuideEntry(RelaxedSegments, _relaxed_segments, ("segments",), max_learning_rate=2e-2),
}


def guide_entry(guide: Any) -> GuideEntry:
    """The entry of a guide given by name or as an object; default settings for guides that are not registered."""
    if isinstance(guide, str):
        return GUIDES[guide]
    own = GuideEntry(None, guide, tuple(MODELS))
    return next((entry for entry in GUIDES.values() if entry.kind is type(guide)), own)
