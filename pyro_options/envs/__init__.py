"""Environments. Importing this module registers ``pyro_options/Message-v0`` and ``Switches-v0`` with gymnasium."""

import gymnasium as gym

from .atari import atari_demonstrations, expert_rollouts, load_atari, make_atari, ram
from .experts import EXPERTS
from .message import MessageEnv, MessageExpert, message_demonstrations
from .replay import replay_frames
from .skill_wrapper import SkillSet, SkillWrapper
from .switches import SwitchesEnv, SwitchesExpert, agent_space, switches_demonstrations

for _name, _class in (("Message", "message:MessageEnv"), ("Switches", "switches:SwitchesEnv")):
    if f"pyro_options/{_name}-v0" not in gym.registry:
        gym.register(f"pyro_options/{_name}-v0", entry_point=f"pyro_options.envs.{_class}")

__all__ = [
    "EXPERTS",
    "MessageEnv",
    "MessageExpert",
    "SkillSet",
    "SkillWrapper",
    "SwitchesEnv",
    "SwitchesExpert",
    "agent_space",
    "atari_demonstrations",
    "expert_rollouts",
    "load_atari",
    "make_atari",
    "message_demonstrations",
    "ram",
    "replay_frames",
    "switches_demonstrations",
]
