"""Learning to act with skills: Stable-Baselines3 on semi-Markov steps."""

from .aggregate import Band, bootstrap_interval, curve_band, interquartile_mean
from .callbacks import CurveCallback, DurationCallback, ProgressCallback
from .parts import PartwiseLearning
from .ppo import SMDPPPO
from .replay import SMDPReplayBuffer
from .rollout import SMDPDictRolloutBuffer, SMDPRolloutBuffer

__all__ = [
    "SMDPPPO",
    "Band",
    "CurveCallback",
    "DurationCallback",
    "PartwiseLearning",
    "ProgressCallback",
    "SMDPDictRolloutBuffer",
    "SMDPReplayBuffer",
    "SMDPRolloutBuffer",
    "bootstrap_interval",
    "curve_band",
    "interquartile_mean",
]
