from .actions import CategoricalActions, GaussianActions, OptionActions
from .autoregressive_path import AutoregressivePath, RelaxedAutoregressivePath, StraightThroughPath
from .encoder import PathEncoder
from .families import ActionFamily, ActionLayout, CategoricalFamily, GaussianFamily
from .mixed_actions import MixedActions
from .path import MarginalActions, OptionPath, PathPosterior, encode_path
from .policies import CategoricalPolicy, GaussianPolicy, MixedPolicy, OptionPolicy, Termination, option_heads
from .state_path import StatePath
from .state_weights import StateWeights
from .tilted_path import TiltedPath
from .transition_path import TransitionPath

__all__ = [
    "ActionFamily",
    "ActionLayout",
    "AutoregressivePath",
    "CategoricalActions",
    "CategoricalFamily",
    "CategoricalPolicy",
    "GaussianActions",
    "GaussianFamily",
    "GaussianPolicy",
    "MarginalActions",
    "MixedActions",
    "MixedPolicy",
    "OptionActions",
    "OptionPath",
    "OptionPolicy",
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
