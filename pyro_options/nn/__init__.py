"""Growable layers and the networks built on them."""

from .encoder import PathEncoder, reverse_episodes
from .growable import Growable, GrowableHeads, GrowableInput, growables
from .mlp import mlp, output_size
from .policy import CategoricalPolicy, GaussianPolicy, Termination

__all__ = [
    "CategoricalPolicy",
    "GaussianPolicy",
    "Growable",
    "GrowableHeads",
    "GrowableInput",
    "PathEncoder",
    "Termination",
    "growables",
    "mlp",
    "output_size",
    "reverse_episodes",
]
