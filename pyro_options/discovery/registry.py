"""Every model and every guide by name. To add one: write its file in ``models/`` or ``guides/`` and an entry here."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyro.nn import PyroModule
from torch import nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.guides.amortized import Relaxed, ScoreFunction, StraightThrough
from pyro_options.guides.exact import Exact
from pyro_options.guides.segments import RelaxedSegments
from pyro_options.models.option_hmm import OptionHMM
from pyro_options.models.segments import CompILE
from pyro_options.nn.networks import mlp
from pyro_options.nn.state_embedding import StateEmbedding
from pyro_options.nn.varying_inputs import VaryingInputs
from pyro_options.options.encoder import PathEncoder
from pyro_options.options.policies import CategoricalPolicy, GaussianPolicy, Termination
from pyro_options.segments.encoder import SegmentEncoder

if TYPE_CHECKING:
    from .config import MethodConfig

#: numbers in a state above which an encoder embeds it; fewer cost next to nothing
WIDE = 64


@dataclass(frozen=True)
class Pieces:
    """What models and guides are made from; a factory of a user's own gets it too.

    :param data: the demonstrations, for their sizes
    :param num_options: K to start from
    :param config: the settings of the method
    :param prior: over the weights, by name or as a module
    :param inputs: picks the entries of a state that vary, ``None`` to read all of them
    :param weights: the posterior over the weights, for guides
    """

    data: Trajectories
    num_options: int
    config: "MethodConfig"
    prior: str | PyroModule
    inputs: VaryingInputs | None
    weights: PyroModule | None = None

    def network(self) -> nn.Module | None:
        """A state network behind the selection of inputs; ``None`` for what a policy makes itself."""
        if self.inputs is None or not self.config.hidden:
            return self.inputs
        return nn.Sequential(self.inputs, *mlp(len(self.inputs.index), self.config.hidden)[0])

    def policy(self) -> CategoricalPolicy | GaussianPolicy:
        """Low-level policies for the actions of the demonstrations."""
        data, kind = self.data, CategoricalPolicy if self.data.discrete else GaussianPolicy
        return kind(data.state_dim, self.num_options, data.action_dim, self.config.hidden, self.network())

    @property
    def step_dim(self) -> int:
        """Size of a state and an encoded action side by side."""
        return self.data.state_dim + self.data.action_dim

    def encoder_inputs(self) -> StateEmbedding | VaryingInputs | None:
        """What reads the states for an encoder; ``None`` for the encoder itself."""
        inputs, units = self.inputs, self.config.embedding
        if units is None:
            width = self.data.state_dim if inputs is None else inputs.out_features
            units = 12 if width > WIDE else 0
        return StateEmbedding(self.data.state_dim, units, inputs) if units else inputs


def _options(pieces: Pieces) -> OptionHMM:
    config, policy = pieces.config, pieces.policy()
    termination = Termination(pieces.data.state_dim, pieces.num_options, config.hidden, pieces.network())
    return OptionHMM(policy, termination, pieces.prior, config.alpha, config.termination_cost)


def _segments(pieces: Pieces) -> CompILE:
    config = pieces.config
    check(config.termination_cost == 0, "no termination_cost with CompILE", config.termination_cost)
    mean = pieces.data.num_steps / len(pieces.data)
    length = mean / config.num_segments if config.segment_length is None else config.segment_length
    return CompILE(pieces.policy(), config.num_segments, length, pieces.prior, config.alpha, config.max_duration)


def _amortized(kind: type, pieces: Pieces) -> PyroModule:
    config = pieces.config
    sizes = pieces.step_dim, pieces.num_options, config.lstm_size, config.encoder_hidden
    return kind(pieces.weights, PathEncoder(*sizes, inputs=pieces.encoder_inputs()), coupled=config.coupled)


def _relaxed_segments(pieces: Pieces) -> RelaxedSegments:
    config = pieces.config
    sizes = pieces.step_dim, pieces.num_options, config.lstm_size, config.encoder_hidden
    return RelaxedSegments(pieces.weights, SegmentEncoder(*sizes, pieces.inputs), config.num_segments)


@dataclass(frozen=True)
class GuideEntry:
    """A guide by name, and how it is trained unless told otherwise; chosen by measurement.

    :param make: the guide from its :class:`Pieces`
    :param models: names of the models that it is a posterior of
    :param rule: of growth; where an encoder has to learn first, a trial is over too soon
    :param entropy_weight: λ_ent while K grows; with the path summed out no encoder has to be kept from settling early
    :param max_learning_rate: that its encoder tolerates, where linear policies would take more
    """

    make: Callable[[Pieces], PyroModule]
    models: tuple[str, ...] = ("options",)
    rule: str = "evidence"
    entropy_weight: float = 5.0
    max_learning_rate: float = math.inf


#: every model by name
MODELS: Mapping[str, Callable[[Pieces], Any]] = {"options": _options, "segments": _segments}

#: every guide by name
GUIDES: Mapping[str, GuideEntry] = {
    "exact": GuideEntry(lambda pieces: Exact(pieces.weights), rule="trial", entropy_weight=0.0),
    "relaxed": GuideEntry(partial(_amortized, Relaxed)),
    "score-function": GuideEntry(partial(_amortized, ScoreFunction)),
    "straight-through": GuideEntry(partial(_amortized, StraightThrough)),
    "segments": GuideEntry(_relaxed_segments, ("segments",), max_learning_rate=2e-2),
}


def guide_entry(guide: Any) -> GuideEntry:
    """The entry of a name, of a guide whose type has one, or one with the defaults for anything else."""
    if isinstance(guide, str):
        return GUIDES[guide]
    kinds = {Exact: "exact", Relaxed: "relaxed", ScoreFunction: "score-function", StraightThrough: "straight-through"}
    name = kinds.get(type(guide), "segments" if isinstance(guide, RelaxedSegments) else "")
    return GUIDES[name] if name else GuideEntry(guide, tuple(MODELS))
