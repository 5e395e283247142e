"""Environments. Importing this module registers ``pyro_options/Message-v0`` and ``Rooms-v0`` with gymnasium."""

import gymnasium as gym

from .atari import atari_demonstrations, expert_rollouts, make_atari, ram
from .experts import EXPERTS
from .message import MessageEnv, MessageExpert, message_demonstrations
from .rooms import RoomsEnv, RoomsExpert, agent_space, rooms_demonstrations
from .skill_wrapper import SkillSet, SkillWrapper

for _name, _class in (("Message", "message:MessageEnv"), ("Rooms", "rooms:RoomsEnv")):
    if f"pyro_options/{_name}-v0" not in gym.registry:
        gym.register(f"pyro_options/{_name}-v0", entry_point=f"pyro_options.envs.{_class}")

__all__ = [
    "EXPERTS",
    "MessageEnv",
    "MessageExpert",
    "RoomsEnv",
    "RoomsExpert",
    "SkillSet",
    "SkillWrapper",
    "agent_space",
    "atari_demonstrations",
    "expert_rollouts",
    "make_atari",
    "message_demonstrations",
    "ram",
    "rooms_demonstrations",
]
