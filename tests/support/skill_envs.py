"""Environments in which skills are actions, and the checks that every environment must pass."""

import warnings

import gymnasium as gym
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common import env_checker
from stable_baselines3.common.monitor import Monitor

from pyro_options.envs import SkillWrapper, SwitchesEnv
from support.skill_sets import LinearSkills

SIZE = SwitchesEnv().observation_space.shape[0]


def linear_skills(num_options=3, seed=0, **options):
    """Random skills for the hall of switches."""
    return LinearSkills(SIZE, num_options, 5, seed, **options)


def switches_with_skills(skills=None, gamma=0.99, max_steps=25, **options):
    """The hall of switches, with a monitor inside that reports true returns."""
    return SkillWrapper(Monitor(SwitchesEnv(max_steps=max_steps)), skills, gamma, **options)


class DictObservations(gym.ObservationWrapper):
    """Observations in a dictionary, not in one array."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Dict({"all": env.observation_space})

    def observation(self, observation):
        return {"all": observation}


def assert_checkers_accept(env, **options):
    """Of Gymnasium and of Stable-Baselines3, which warn of wrappers only."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version.*")
        check_env(env, **options)
        env_checker.check_env(env)
