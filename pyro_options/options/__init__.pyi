from .actions import CategoricalActions, GaussianActions, OptionActions
from .autoregressive_path import AutoregressivePath, RelaxedAutoregressivePath, StraightThroughPath
from .encoder import PathEncoder
from .path import MarginalActions, OptionPath, PathPosterior, encode_path
from .policies import CategoricalPolicy, GaussianPolicy, Termination, option_heads
from .state_path import StatePath
from .state_weights import StateWeights
from .tilted_path import TiltedPath
from .transition_path import TransitionPath

__all__ = [
    "AutoregressivePath",
    "CategoricalActions",
    "CategoricalPolicy",
    "GaussianActions",
    "GaussianPolicy",
    "MarginalActions",
    "OptionActions",
    "OptionPath",
    "PathEncoder",
    "PathPosterior",
    "RelaxedAutoregressivePath",
    "StatePath",
    "StateWeights",
    "StraightThroughPath",
    "Termination",
    "TiltedPath",
    "TransitionPath",
    "encode_path",
    "option_heads",
]
