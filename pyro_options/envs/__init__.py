"""Environments. Importing this module registers ``pyro_options/Message-v0`` with gymnasium."""

import gymnasium as gym

from .message import MessageEnv, MessageExpert, message_demonstrations

if "pyro_options/Message-v0" not in gym.registry:
    gym.register("pyro_options/Message-v0", entry_point="pyro_options.envs.message:MessageEnv")

__all__ = ["MessageEnv", "MessageExpert", "message_demonstrations"]
