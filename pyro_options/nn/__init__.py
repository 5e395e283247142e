"""Growable layers and the networks built on them."""

from .backward_lstm import reverse_episodes
from .count_components import BeliefMultinomial, CountComponents
from .encoder import PathEncoder
from .gaussian_components import GaussianComponents
from .growable import Growable, GrowableHeads, GrowableInput, growables
from .mlp import mlp, output_size
from .policy import CategoricalPolicy, GaussianPolicy, Termination, option_heads
from .segment_encoder import SegmentEncoder
from .shared_product import ReadsStates, shared_product
from .state_embedding import StateEmbedding
from .varying import VaryingInputs

__all__ = [
    "BeliefMultinomial",
    "CategoricalPolicy",
    "CountComponents",
    "GaussianComponents",
    "GaussianPolicy",
    "Growable",
    "GrowableHeads",
    "GrowableInput",
    "PathEncoder",
    "ReadsStates",
    "SegmentEncoder",
    "StateEmbedding",
    "Termination",
    "VaryingInputs",
    "growables",
    "mlp",
    "option_heads",
    "output_size",
    "reverse_episodes",
    "shared_product",
]
