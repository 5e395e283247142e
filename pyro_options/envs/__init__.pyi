from .atari import atari_demonstrations, expert_rollouts, load_atari, make_atari, ram
from .atari_vec_env import AtariVecEnv
from .experts import EXPERTS
from .message_task import MessageEnv, MessageExpert, final_action_probabilities, message_demonstrations, message_success
from .playback import Playback, play
from .recorded_frames import replay_frames
from .skill_wrapper import SkillSet, SkillWrapper
from .switches import SwitchesEnv, SwitchesExpert, agent_space, switches_demonstrations

__all__ = [
    "EXPERTS",
    "AtariVecEnv",
    "MessageEnv",
    "MessageExpert",
    "Playback",
    "SkillSet",
    "SkillWrapper",
    "SwitchesEnv",
    "SwitchesExpert",
    "agent_space",
    "atari_demonstrations",
    "expert_rollouts",
    "final_action_probabilities",
    "load_atari",
    "make_atari",
    "message_demonstrations",
    "message_success",
    "play",
    "ram",
    "replay_frames",
    "switches_demonstrations",
]
