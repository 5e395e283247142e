"""The message environment, its expert and its demonstrations."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.evaluation import evaluate_policy
from support.skill_envs import assert_checkers_accept

import pyro_options.envs  # noqa: F401  registers the environment
from pyro_options.envs import MessageEnv, MessageExpert, message_demonstrations


def test_both_checkers_accept_it():
    assert_checkers_accept(gym.make("pyro_options/Message-v0", num_messages=4).unwrapped, skip_render_check=True)
    assert isinstance(gym.make("pyro_options/Message-v0").unwrapped, MessageEnv)


def test_the_message_is_visible_only_at_the_start():
    env = MessageEnv(5)
    observation, info = env.reset(seed=3)
    assert observation.tolist() == [0, info["message"]]
    rewards = []
    for t in range(5):
        observation, reward, terminated, truncated, _ = env.step(info["message"])
        rewards.append(reward)
        assert observation.tolist() == [t + 1, -1] and not truncated and terminated == (t == 4)
    assert rewards == [0, 0, 0, 0, 1]


def test_only_the_last_action_counts():
    env = MessageEnv(3)
    _, info = env.reset(seed=0)
    for _ in range(4):
        env.step((info["message"] + 1) % 3)
    assert env.step(info["message"])[1] == 1.0
    with pytest.raises(ValueError, match=r"reset"):
        env.step(0)


def test_the_expert_always_succeeds():
    mean, spread = evaluate_policy(MessageExpert(), gym.make("pyro_options/Message-v0"), n_eval_episodes=20, warn=False)
    assert mean == 1.0 and spread == 0.0


def test_demonstrations_repeat_with_their_seed_and_cover_the_vocabulary():
    data = message_demonstrations(4, 200, seed=1)
    assert len(data) == 200 and data.num_actions == 4 and data.state_dim == 2
    assert torch.equal(data.states, message_demonstrations(4, 200, seed=1).states)
    assert not torch.equal(data.states, message_demonstrations(4, 200, seed=2).states)
    assert torch.equal(data.actions[:, 0].float(), data.states[:, 0, 1])
    assert (data.actions == data.actions[:, :1]).all() and set(data.actions.unique().tolist()) == {0, 1, 2, 3}


def test_ansi_rendering():
    env = MessageEnv(3, render_mode="ansi")
    _, info = env.reset(seed=0)
    env.step(np.int64(2))
    assert env.render() == f"told {info['message']}, said [2]"
