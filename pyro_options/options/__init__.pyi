from .actions import CategoricalActions, GaussianActions, OptionActions
from .autoregressive_path import AutoregressivePath, RelaxedAutoregressivePath, StraightThroughPath
from .encoder import PathEncoder, StepEncoder
from .estimators import EstimatedActions, PathEstimate, forward_kl, importance_weighted, leave_one_out
from .evidence import EvidenceModel, PathEvidence
from .families import ActionLayout, CategoricalFamily, GaussianFamily
from .message_encoder import MessageEncoder
from .mixed_actions import MixedActions
from .path import MarginalActions, OptionPath, PathPosterior, StepAveragedActions, encode_path
from .path_steps import Steps, Transitions
from .policies import CategoricalPolicy, GaussianPolicy, MixedPolicy, OptionPolicy, Termination, option_heads
from .state_path import StatePath
from .state_weights import StateWeights
from .straight_through import GumbelRaoPath, StickingPath
from .structured_path import MarginalStructuredPath, RelaxedStructuredPath, StructuredPath
from .tilted_path import TiltedPath
from .transition_path import TransitionPath

__all__ = [
    "ActionLayout",
    "AutoregressivePath",
    "CategoricalActions",
    "CategoricalFamily",
    "CategoricalPolicy",
    "EstimatedActions",
    "EvidenceModel",
    "GaussianActions",
    "GaussianFamily",
    "GaussianPolicy",
    "GumbelRaoPath",
    "MarginalActions",
    "MarginalStructuredPath",
    "MessageEncoder",
    "MixedActions",
    "MixedPolicy",
    "OptionActions",
    "OptionPath",
    "OptionPolicy",
    "PathEncoder",
    "PathEstimate",
    "PathEvidence",
    "PathPosterior",
    "RelaxedAutoregressivePath",
    "RelaxedStructuredPath",
    "StatePath",
    "StateWeights",
    "StepAveragedActions",
    "StepEncoder",
    "Steps",
    "StickingPath",
    "StraightThroughPath",
    "StructuredPath",
    "Termination",
    "TiltedPath",
    "TransitionPath",
    "Transitions",
    "encode_path",
    "forward_kl",
    "importance_weighted",
    "leave_one_out",
    "option_heads",
]
