"""Many games on the bare emulator give the steps of the single wrappers."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common import atari_wrappers
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from pyro_options.envs import AtariVecEnv, SkillWrapper, make_atari, ram
from pyro_options.envs.ram_game import RamGame, make_emulator, start_states
from pyro_options.options import CategoricalPolicy, Termination
from pyro_options.rl import SMDPPPO
from pyro_options.skills import Skills

FROM_ONE_WRAPPER = {"episode_frame_number", "frame_number"}  # of ale-py's environment only


class Bits(gym.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 1, (1024,), np.float32)

    def observation(self, observation):
        return np.unpackbits(observation).astype(np.float32)


def make_skills(num_actions, num_options=3):
    torch.manual_seed(0)
    policy = CategoricalPolicy(1024, num_options, num_actions)
    termination = Termination(1024, num_options, initial_logit=-1.0)
    torch.nn.init.normal_(policy.heads.weight)
    torch.nn.init.normal_(termination.heads.weight, std=0.1)
    return Skills(policy, termination, torch.zeros(num_options), packed=True)


def wrapped(game, skills, **options):
    """What :class:`AtariVecEnv` replaces."""

    def make():
        env = atari_wrappers.FireResetEnv(atari_wrappers.EpisodicLifeEnv(Monitor(make_atari(game))))
        return SkillWrapper(Bits(atari_wrappers.ClipRewardEnv(env)), skills, observe=ram, frame_skip=4, **options)

    return DummyVecEnv([make] * 3)


def assert_same_infos(one, other):
    assert set(one) - set(other) <= FROM_ONE_WRAPPER and set(other) <= set(one)
    for key, value in other.items():
        if key == "episode":
            assert value["r"] == one[key]["r"] and value["l"] == one[key]["l"]
        else:
            assert np.array_equal(value, one[key]), key


@pytest.mark.parametrize("game, num_steps", [("Breakout", 150), ("SpaceInvaders", 60)])
@pytest.mark.parametrize(
    "with_skills, options",
    [(False, {}), (True, {}), (True, {"deterministic": False}), (True, {"imitate": True})],
    ids=["plain", "skills", "sampled", "imitation"],
)
def test_steps_are_those_of_the_single_wrappers(game, num_steps, with_skills, options):
    num_actions = {"Breakout": 4, "SpaceInvaders": 6}[game]
    skills = make_skills(num_actions) if with_skills else None
    options = {"max_duration": 6, **options}
    slow, fast = wrapped(game, skills, **options), AtariVecEnv(game, 3, skills, **options)
    assert slow.action_space == fast.action_space and slow.observation_space == fast.observation_space
    slow.seed(5), fast.seed(5)
    assert np.array_equal(slow.reset(), fast.reset())
    rng, durations, ends, games = np.random.default_rng(0), [], 0, 0
    for _ in range(num_steps):
        actions = rng.integers(fast.action_space.n, size=3)
        expected, found = slow.step(actions), fast.step(actions)
        for one, other in zip(expected[:3], found[:3]):
            assert np.array_equal(one, other) and one.dtype == other.dtype
        for one, other in zip(expected[3], found[3]):
            assert_same_infos(one, other)
        durations += [info["duration"] for info in found[3]]
        ends, games = ends + found[2].sum(), games + sum("episode" in info for info in found[3])
    assert (max(durations) > 1) == with_skills
    assert game != "Breakout" or ends > games >= with_skills


def test_starts_are_those_of_no_op_frames():
    starts = start_states("Breakout", 30)
    env, emulator = make_atari("Breakout"), make_emulator("Breakout")
    found = set()
    for state in starts:
        emulator.restoreState(state)
        found.add(emulator.getRAM().tobytes())
    assert len(starts) == 30 and {env.reset(seed=seed)[0].tobytes() for seed in range(20)} <= found
    (alone,) = start_states("Breakout", 0)
    emulator.restoreState(alone)
    assert np.array_equal(emulator.getRAM(), make_atari("Breakout", noops=0).reset(seed=0)[0])


def test_a_seed_starts_a_new_game():
    env = AtariVecEnv("Breakout", 2)
    runs = []
    for _ in range(2):
        env.seed(1)
        observations = [env.reset()]
        for _ in range(15):
            observations.append(env.step(np.array([2, 3]))[0])
        runs.append(np.stack(observations))
    assert np.array_equal(runs[0], runs[1])
    env.seed(2)
    assert not np.array_equal(env.reset(), runs[0][0])


def test_rewards_and_lives_may_stay_as_they_are():
    game = RamGame("SpaceInvaders", episodic_life=False, fire=False, clip_rewards=False)
    game.seed(0)
    game.reset()
    rng, rewards, ended = np.random.default_rng(0), [], False
    while not ended:
        reward, terminated, truncated = game.act(int(rng.integers(6)))
        rewards.append(reward)
        ended = terminated or truncated
    assert max(rewards) > 1 and game.emulator.lives() == 0
    assert game.episode == {"r": sum(rewards), "l": len(rewards)}


def test_a_learner_learns_with_it():
    env = AtariVecEnv("Breakout", 2, make_skills(4), max_duration=3)
    learner = SMDPPPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, device="cpu").learn(32)
    assert learner.num_timesteps == 32 < learner.num_primitive_steps <= 96
    assert learner.num_frames == 4 * learner.num_primitive_steps


def test_evaluation_reports_whole_games():
    class Random:
        rng = np.random.default_rng(0)

        def predict(self, observation, state=None, episode_start=None, deterministic=True):
            return self.rng.integers(4, size=len(observation)), state

    returns, lengths = evaluate_policy(Random(), AtariVecEnv("Breakout", 1), 1, return_episode_rewards=True)
    assert len(returns) == 1 and lengths[0] > 100


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="a game that ale-py has but got 'space_invaders'"):
        AtariVecEnv("space_invaders")
    with pytest.raises(ValueError, match="skills over 6 actions but got 4"):
        AtariVecEnv("SpaceInvaders", 1, make_skills(4))
    with pytest.raises(ValueError, match="skills to imitate with"):
        AtariVecEnv("Breakout", 1, imitate=True)
    with pytest.raises(ValueError, match="Use SkillWrapper for others"):
        AtariVecEnv("Breakout", 1, object())
    env = AtariVecEnv("Breakout", 2)
    env.reset()
    with pytest.raises(ValueError, match=r"2 actions in \[0, 3\]"):
        env.step(np.array([0, 4]))
