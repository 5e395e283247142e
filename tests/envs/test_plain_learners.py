"""A learner that does not know how long skills last is told so, once; others are not."""

import pytest
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv
from support.skill_envs import linear_skills, switches_with_skills

from pyro_options.envs import plain_learners
from pyro_options.rl import SMDPPPO, SMDPReplayBuffer

SHORT = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "device": "cpu", "seed": 0}


@pytest.fixture(autouse=True)
def forgetful():
    plain_learners._warn.cache_clear()


def envs(**options):
    skills = linear_skills(termination_logit=-3.0)
    return DummyVecEnv([lambda: switches_with_skills(skills, **options)] * 2)


def test_plain_ppo_is_told_once():
    with pytest.warns(UserWarning, match=r"PPO discounts a skill of many steps by γ.*SMDPPPO") as told:
        PPO("MlpPolicy", envs(), **SHORT).learn(64)
    assert len([one for one in told if "discounts a skill" in str(one.message)]) == 1


def test_plain_dqn_is_told_of_the_buffer():
    with pytest.warns(UserWarning, match=r"DQN discounts.*SMDPReplayBuffer"):
        DQN("MlpPolicy", envs(), learning_starts=5, device="cpu", seed=0).learn(40)


def test_learners_that_know_and_loops_by_hand_are_not(recwarn):
    model = SMDPPPO("MlpPolicy", envs(), **SHORT).learn(64)
    evaluate_policy(model, envs(), n_eval_episodes=1, warn=False)
    given = {"replay_buffer_class": SMDPReplayBuffer, "replay_buffer_kwargs": {"gamma": 0.99}}
    DQN("MlpPolicy", envs(), learning_starts=5, device="cpu", seed=0, **given).learn(40)
    PPO("MlpPolicy", envs(gamma=1.0), gamma=1.0, **SHORT).learn(32)  # nothing is discounted
    assert not [one.message for one in recwarn if "discounts" in str(one.message)]
