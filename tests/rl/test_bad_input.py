"""Learners over skills: logging, refused input, and the example in the docstring."""

import inspect
from itertools import cycle
from textwrap import dedent

import gymnasium as gym
import pytest
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from support.skill_envs import DictObservations, linear_skills, switches_with_skills

from pyro_options.envs import SkillWrapper, SwitchesEnv
from pyro_options.rl import SMDPPPO, SMDPDictRolloutBuffer, SMDPReplayBuffer, SMDPRolloutBuffer

SHORT = dict(n_steps=16, batch_size=16, n_epochs=1, device="cpu", seed=1)


def make(gamma=0.99):
    return switches_with_skills(linear_skills(), gamma)


def longest_episode(learner):
    return max(episode["l"] for episode in learner.ep_info_buffer)


def test_the_example_reports_lengths_in_steps_of_the_environment():
    """Decisions are fewer than an episode has steps, so a Monitor around the skills could not count that far."""
    example = dedent(inspect.getdoc(SMDPPPO).split("Example::\n")[1]).replace("100_000", "1")
    learners = []

    def learner(*args):
        learners.append(SMDPPPO(*args, **SHORT | {"n_steps": 80}))
        return learners[0]

    names = {"gym": gym, "DummyVecEnv": DummyVecEnv, "Monitor": Monitor, "SkillWrapper": SkillWrapper}
    exec(example, names | {"skills": linear_skills(), "SMDPPPO": learner})
    assert longest_episode(learners[0]) == 100 > learners[0].n_steps


def test_make_vec_env_takes_the_skills_as_its_wrapper():
    given = {"wrapper_class": SkillWrapper, "wrapper_kwargs": {"skills": linear_skills()}}
    envs = make_vec_env(lambda: SwitchesEnv(max_steps=25), 2, **given)
    assert longest_episode(SMDPPPO("MlpPolicy", envs, **SHORT).learn(32)) == 25 > SHORT["n_steps"]


def dqn(policy="MlpPolicy", env=make, **options):
    return DQN(
        policy, DummyVecEnv([env]), replay_buffer_class=SMDPReplayBuffer, learning_starts=5, device="cpu", **options
    )


def test_the_replay_buffer_must_be_told_gamma():
    with pytest.raises(ValueError, match=r'replay_buffer_kwargs=\{"gamma": …\}'):
        dqn()
    with pytest.raises(ValueError, match=r"gamma in \(0, 1\] but got 2"):
        dqn(replay_buffer_kwargs={"gamma": 2})
    other = dqn(env=lambda: make(0.9), gamma=0.9, replay_buffer_kwargs={"gamma": 0.99})
    with pytest.raises(ValueError, match=r'but got 0\.9\. .*replay_buffer_kwargs=\{"gamma": …\}'):
        other.learn(60)


def test_n_step_replay_is_refused():
    with pytest.raises(ValueError, match="n_steps=1 but got 3"):
        dqn(replay_buffer_kwargs={"gamma": 0.99, "n_steps": 3})


def test_replay_of_dictionaries_is_refused():
    with pytest.raises(ValueError, match=r"one array but got Dict.*FlattenObservation"):
        dqn("MultiInputPolicy", lambda: DictObservations(make()), replay_buffer_kwargs={"gamma": 0.99})


def test_a_buffer_must_suit_the_observations():
    with pytest.raises(ValueError, match="Derive yours from SMDPDictRolloutBuffer"):
        envs = DummyVecEnv([lambda: DictObservations(make())])
        SMDPPPO("MultiInputPolicy", envs, rollout_buffer_class=SMDPRolloutBuffer, **SHORT)
    with pytest.raises(ValueError, match="Derive yours from SMDPRolloutBuffer"):
        SMDPPPO("MlpPolicy", DummyVecEnv([make]), rollout_buffer_class=SMDPDictRolloutBuffer, **SHORT)


def test_an_option_that_is_no_longer_used_is_logged_as_zero():
    """In a second call of learn too, in which it was never chosen."""

    class Records(KVWriter):
        def write(self, key_values, key_excluded, step=0):
            logged.append({key: value for key, value in key_values.items() if "usage" in key})

        def close(self):
            pass

    def steered(actions):
        class Steered(gym.ActionWrapper):
            def action(self, action):
                return next(actions)

        return DummyVecEnv([lambda: Steered(make())])

    logged, short = [], SHORT | {"n_steps": 4, "batch_size": 4}
    learner = SMDPPPO("MlpPolicy", steered(cycle([5, 7, 7, 0])), **short)
    learner.set_logger(Logger(None, [Records()]))
    learner.learn(4)
    learner.set_env(steered(cycle([0, 5])))
    learner.learn(4, reset_num_timesteps=False)
    first = {"options/usage_0": 0.25, "options/usage_1": 0.0, "options/usage_2": 0.5}
    assert logged == [first, first | {"options/usage_0": 0.5, "options/usage_2": 0.0}]
    learner.learn(4)
    assert logged[-1] == {"options/usage_0": 0.5}
