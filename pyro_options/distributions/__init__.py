"""Log-space densities: sticks, option paths, and the actions they explain."""

from .autoregressive_path import AutoregressivePath, RelaxedAutoregressivePath, StraightThroughPath
from .bisection import bisect
from .mixture import Mixture
from .normal_wishart import BeliefGaussian, NormalWishart
from .option_actions import CategoricalActions, GaussianActions, OptionActions
from .option_path import MarginalActions, OptionPath, PathPosterior, encode_path
from .relaxed_segments import RelaxedBoundaries, RelaxedSkills
from .segment_actions import SegmentedActions, SegmentSkills
from .segment_boundaries import PoissonBoundaries, segment_masks
from .segment_path import SegmentPath
from .sticks import (
    LogitBeta,
    LogitKumaraswamy,
    gem_sticks,
    kl_kumaraswamy_beta,
    log_stick_breaking,
    logit_sticks,
)
from .tilted_path import TiltedPath

__all__ = [
    "AutoregressivePath",
    "BeliefGaussian",
    "CategoricalActions",
    "GaussianActions",
    "LogitBeta",
    "LogitKumaraswamy",
    "MarginalActions",
    "Mixture",
    "NormalWishart",
    "OptionActions",
    "OptionPath",
    "PathPosterior",
    "PoissonBoundaries",
    "RelaxedAutoregressivePath",
    "RelaxedBoundaries",
    "RelaxedSkills",
    "SegmentPath",
    "SegmentSkills",
    "SegmentedActions",
    "StraightThroughPath",
    "TiltedPath",
    "bisect",
    "encode_path",
    "gem_sticks",
    "kl_kumaraswamy_beta",
    "log_stick_breaking",
    "logit_sticks",
    "segment_masks",
]
