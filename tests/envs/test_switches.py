"""The environment with switches, its expert and its demonstrations."""

import gymnasium as gym
import numpy as np
import pytest
from support.skill_envs import assert_checkers_accept

from pyro_options.envs import SwitchesEnv, SwitchesExpert, switches_demonstrations
from pyro_options.envs.switches import PRESS


def play(env, seed=0):
    """The expert's episode: rewards, observations and the last info."""
    expert, rewards, seen = SwitchesExpert(env), [], [env.reset(seed=seed)[0]]
    ended = False
    while not ended:
        observation, reward, ended, truncated, info = env.step(expert.predict(seen[-1])[0])
        assert not truncated
        rewards.append(reward)
        seen.append(observation)
    return rewards, seen, info


def test_the_checks_of_gymnasium_and_stable_baselines_pass():
    assert_checkers_accept(gym.make("pyro_options/Switches-v0", render_mode="rgb_array").unwrapped)


@pytest.mark.parametrize("order", [(2, 0, 3, 1), (1,), (3, 2)])
def test_the_expert_presses_every_switch_in_order(order):
    rewards, seen, info = play(SwitchesEnv(order))
    assert sum(rewards) == pytest.approx(1) and info["is_success"]
    clicks, lights = np.array([x[-5] for x in seen]), np.array([x[-4:] for x in seen])
    assert clicks.sum() == len(order)
    assert lights[-1].nonzero()[0].tolist() == sorted(order)
    first_on = {k: int(lights[:, k].argmax()) for k in order}
    assert sorted(order, key=first_on.get) == list(order)


def test_a_switch_out_of_turn_clicks_but_does_not_light():
    env = SwitchesEnv((0, 1))
    expert = SwitchesExpert(env)
    observation, _ = env.reset(seed=0)
    env.order = (1, 0)
    while (action := expert.predict(observation)[0]) != PRESS:
        observation = env.step(action)[0]
    env.order = (0, 1)
    observation, reward, terminated, _, _ = env.step(PRESS)
    assert reward == 0 and not terminated and observation[-5] == 1 and not observation[-4:].any()
    assert env.step(0)[0][-5] == 0


def test_walls_and_the_time_limit():
    env = SwitchesEnv(max_steps=12)
    env.reset(seed=0)
    steps = [env.step(0) for _ in range(12)]
    assert np.array_equal(steps[-1][0], steps[-2][0])
    assert [step[3] for step in steps] == [False] * 11 + [True]


def test_orders_are_random_and_not_part_of_demonstrations():
    env = SwitchesEnv(order=2)
    orders = {env.reset(seed=seed) and env.order for seed in range(200)}
    assert len(orders) == 12
    data = switches_demonstrations(10, seed=1)
    assert data.state_dim == env.observation_space.shape[0] - 4 and data.num_actions == 5
    assert data.actions[data.mask].eq(PRESS).sum() == 20


def test_bad_input_is_refused():
    for order in ((), (0, 0), (4,), 5, 0):
        with pytest.raises(ValueError, match="an order of different switches"):
            SwitchesEnv(order)
    with pytest.raises(ValueError, match="the Switches environment"):
        SwitchesExpert(gym.make("CartPole-v1"))
    env = SwitchesEnv((0,))
    play(env)
    with pytest.raises(ValueError, match="Call reset"):
        env.step(0)
