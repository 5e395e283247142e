"""Environments. Importing this module registers ``pyro_options/Message-v0`` with gymnasium."""

import gymnasium as gym

from .atari import atari_demonstrations, expert_rollouts, make_atari, ram
from .experts import EXPERTS
from .message import MessageEnv, MessageExpert, message_demonstrations
from .replay import replay_frames

if "pyro_options/Message-v0" not in gym.registry:
    gym.register("pyro_options/Message-v0", entry_point="pyro_options.envs.message:MessageEnv")

__all__ = [
    "EXPERTS",
    "MessageEnv",
    "MessageExpert",
    "atari_demonstrations",
    "expert_rollouts",
    "make_atari",
    "message_demonstrations",
    "ram",
    "replay_frames",
]
