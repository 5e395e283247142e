"""Learners on steps that last: what they log, what they refuse, and that the example in the docstring runs."""

import inspect
from textwrap import dedent

import gymnasium as gym
import pytest
from skill_sets import LinearSkills
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from pyro_options.envs import SkillWrapper, SwitchesEnv
from pyro_options.rl import SMDPPPO, SMDPReplayBuffer, SMDPRolloutBuffer

SIZE = SwitchesEnv().observation_space.shape[0]
SHORT = dict(n_steps=16, batch_size=16, n_epochs=1, device="cpu", seed=1)


class Nested(gym.ObservationWrapper):
    """Observations in a dictionary."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Dict({"all": env.observation_space})

    def observation(self, observation):
        return {"all": observation}


def make(gamma=0.99):
    return SkillWrapper(Monitor(SwitchesEnv(max_steps=25)), LinearSkills(SIZE, 3, 5), gamma)


def longest_episode(learner):
    return max(episode["l"] for episode in learner.ep_info_buffer)


def test_the_example_reports_lengths_in_steps_of_the_environment():
    """Decisions are fewer than an episode has steps, so a Monitor around the skills could not count that far."""
    example = dedent(inspect.getdoc(SMDPPPO).split("Example::\n")[1]).replace("100_000", "1")
    learners = []

    def learner(*args):
        learners.append(SMDPPPO(*args, **SHORT | {"n_steps": 80}))
        return learners[0]

    exec(example, globals() | {"skills": LinearSkills(SIZE, 3, 5), "SMDPPPO": learner})
    assert longest_episode(learners[0]) == 100 > learners[0].n_steps


def test_make_vec_env_takes_the_skills_as_its_wrapper():
    given = {"wrapper_class": SkillWrapper, "wrapper_kwargs": {"skills": LinearSkills(SIZE, 3, 5)}}
    envs = make_vec_env(lambda: SwitchesEnv(max_steps=25), 2, **given)
    assert longest_episode(SMDPPPO("MlpPolicy", envs, **SHORT).learn(32)) == 25 > SHORT["n_steps"]
