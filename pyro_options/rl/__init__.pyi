from .callbacks import CurveCallback, DurationCallback, ProgressCallback
from .ppo import SMDPPPO
from .replay_buffer import SMDPReplayBuffer
from .resumable_ppo import PartwiseLearning
from .rollout_buffer import SMDPDictRolloutBuffer, SMDPRolloutBuffer

__all__ = [
    "SMDPPPO",
    "CurveCallback",
    "DurationCallback",
    "PartwiseLearning",
    "ProgressCallback",
    "SMDPDictRolloutBuffer",
    "SMDPReplayBuffer",
    "SMDPRolloutBuffer",
]
