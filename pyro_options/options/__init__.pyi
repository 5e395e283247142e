from .actions import CategoricalActions, GaussianActions, OptionActions
from .autoregressive_path import AutoregressivePath, RelaxedAutoregressivePath, StraightThroughPath
from .encoder import PathEncoder, StepEncoder
from .evidence import EvidenceModel, PathEvidence
from .message_encoder import MessageEncoder
from .path import MarginalActions, OptionPath, PathPosterior, StepAveragedActions, encode_path
from .path_steps import Steps, Transitions
from .policies import CategoricalPolicy, GaussianPolicy, Termination, option_heads
from .state_path import StatePath
from .state_weights import StateWeights
from .structured_path import MarginalStructuredPath, RelaxedStructuredPath, StructuredPath
from .tilted_path import TiltedPath

__all__ = [
    "AutoregressivePath",
    "CategoricalActions",
    "CategoricalPolicy",
    "EvidenceModel",
    "GaussianActions",
    "GaussianPolicy",
    "MarginalActions",
    "MarginalStructuredPath",
    "MessageEncoder",
    "OptionActions",
    "OptionPath",
    "PathEncoder",
    "PathEvidence",
    "PathPosterior",
    "RelaxedAutoregressivePath",
    "RelaxedStructuredPath",
    "StatePath",
    "StateWeights",
    "StepAveragedActions",
    "StepEncoder",
    "Steps",
    "StraightThroughPath",
    "StructuredPath",
    "Termination",
    "TiltedPath",
    "Transitions",
    "encode_path",
    "option_heads",
]
