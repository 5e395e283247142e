"""Learners over skills: equal to PPO and DQN with durations of 1, and to brute force with longer ones."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from support.skill_envs import SIZE, DictObservations, linear_skills, switches_with_skills
from support.skill_sets import ScriptedSkills

from pyro_options.envs import SkillWrapper, SwitchesEnv
from pyro_options.rl import SMDPPPO, CurveCallback, SMDPDictRolloutBuffer, SMDPReplayBuffer, SMDPRolloutBuffer

GAMMA, LAMBDA = 0.9, 0.8
SHORT = dict(n_steps=16, batch_size=16, n_epochs=2, device="cpu", seed=1)


def make_env(skills=None, gamma=0.99, wrap=lambda env: env):
    """Two environments."""
    return DummyVecEnv([lambda: wrap(switches_with_skills(skills, gamma))] * 2)


ONE_STEP = ScriptedSkills(lambda x, k: k, lambda x, k: True, 3, 5, state_dim=SIZE)


def trained(algorithm, env, num_updates=10):
    return algorithm("MlpPolicy", env, **SHORT).learn(16 * env.num_envs * num_updates)


def assert_same_parameters(one, other):
    ours, theirs = one.policy.state_dict(), other.policy.state_dict()
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


@pytest.mark.parametrize("skills", [None, ONE_STEP], ids=["no skills", "durations of 1"])
def test_equals_ppo_bit_for_bit_after_ten_updates(skills):
    plain = trained(PPO, make_env(skills))
    ours = trained(SMDPPPO, make_env(skills))
    assert plain._n_updates == 20 and ours.num_timesteps == 320
    assert_same_parameters(plain, ours)
    assert ours.num_frames == ours.num_primitive_steps == 320


def test_equals_ppo_bit_for_bit_with_dict_observations():
    runs = [
        algorithm("MultiInputPolicy", make_env(None, wrap=DictObservations), **SHORT).learn(100)
        for algorithm in (PPO, SMDPPPO)
    ]
    assert isinstance(runs[1].rollout_buffer, SMDPDictRolloutBuffer)
    assert_same_parameters(*runs)


@pytest.mark.filterwarnings("ignore:PPO discounts a skill")  # which is what this is about
def test_durations_change_what_is_learned():
    """The comparison above could see a difference."""
    env = dict(skills=linear_skills())
    ours, plain = trained(SMDPPPO, make_env(**env), 2), trained(PPO, make_env(**env), 2)
    assert any(not torch.equal(a, b) for a, b in zip(ours.policy.parameters(), plain.policy.parameters()))
    assert ours.num_primitive_steps > ours.num_timesteps


def brute_force_advantages(rewards, values, following, durations, ends):
    """A_t = Σ_l (Π γ^τ λ) δ, summed term by term; ``following[t]`` is V(s_{t+1}), or 0 where nothing follows."""
    T = len(rewards)
    advantages = np.zeros(T)
    for t in range(T):
        weight = 1.0
        for u in range(t, T):
            delta = rewards[u] + GAMMA ** durations[u] * following[u] * (1 - ends[u]) - values[u]
            advantages[t] += weight * delta
            if ends[u]:
                break
            weight *= GAMMA ** durations[u] * LAMBDA
    return advantages


@pytest.mark.parametrize("seed", range(3))
def test_advantages_equal_brute_force(seed):
    rng = np.random.default_rng(seed)
    T, N = 12, 3
    space = gym.spaces.Box(-1, 1, (2,))
    buffer = SMDPRolloutBuffer(T, space, gym.spaces.Discrete(4), "cpu", gae_lambda=LAMBDA, gamma=GAMMA, n_envs=N)
    rewards, values = rng.normal(size=(2, T, N))
    durations, ends = rng.integers(1, 7, size=(T, N)), rng.random((T, N)) < 0.3
    starts = np.concatenate([np.ones((1, N)), ends[:-1]])
    for t in range(T):
        buffer.announce(durations[t], {})
        buffer.add(np.zeros((N, 2)), np.zeros(N), rewards[t], starts[t], torch.tensor(values[t]), torch.zeros(N))
    last = rng.normal(size=N)
    buffer.compute_returns_and_advantage(torch.tensor(last), ends[-1])
    following = np.concatenate([values[1:], last[None]])
    for n in range(N):
        columns = (x[:, n] for x in (rewards, values, following, durations, ends))
        expected = brute_force_advantages(*columns)
        np.testing.assert_allclose(buffer.advantages[:, n], expected, atol=1e-5)
        np.testing.assert_allclose(buffer.returns[:, n], expected + values[:, n], atol=1e-5)


class Trace(BaseCallback):
    """Everything that the environment said."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def _on_step(self):
        seen = self.locals
        infos = [dict(info) for info in seen["infos"]]
        self.steps.append((seen["rewards"].copy(), seen["dones"].copy(), infos, self.model._last_episode_starts.copy()))
        return True


def test_rollouts_equal_brute_force_with_mixed_durations_truncations_and_terminations():
    """Through the real loop: what PPO trains on is rebuilt from what the environment said."""
    goes = ScriptedSkills(lambda x, k: k % 4, lambda x, k: False, 5, 5, state_dim=SIZE, max_duration=7)

    class Ending(gym.Wrapper):
        def step(self, action):
            observation, reward, _, truncated, info = self.env.step(action)
            ended = not truncated and self.np_random.random() < 0.04
            return observation, reward + self.np_random.normal(), ended, truncated, info

    def make():
        return SkillWrapper(Monitor(Ending(SwitchesEnv(max_steps=25))), goes, GAMMA)

    trace = Trace()
    model = SMDPPPO(
        "MlpPolicy", DummyVecEnv([make] * 2), n_steps=64, gamma=GAMMA, gae_lambda=LAMBDA, n_epochs=1, seed=0,
        device="cpu", learning_rate=0.0,
    )  # fmt: skip
    model.learn(128, callback=trace)
    rewards, dones = (np.array([step[i] for step in trace.steps], dtype=float) for i in (0, 1))
    durations = np.array([[info["duration"] for info in step[2]] for step in trace.steps])
    cut = np.array([[info["TimeLimit.truncated"] and done for info, done in zip(s[2], s[1])] for s in trace.steps])
    assert (cut & (durations > 1)).any() and (cut & (durations == 1)).any()
    assert ((dones == 1) & ~cut).any() and len(np.unique(durations)) > 2

    def value(observation):
        with torch.no_grad():
            return model.policy.predict_values(torch.as_tensor(observation)[None]).item()

    for t, n in zip(*np.nonzero(cut)):
        rewards[t, n] += GAMMA ** durations[t, n] * value(trace.steps[t][2][n]["terminal_observation"])
    flat = [model.rollout_buffer.__dict__[name].reshape(2, 64).T for name in ("values", "advantages")]
    values, advantages = flat
    last = np.array([value(observation) for observation in model._last_obs])
    following = np.concatenate([values[1:], last[None]])
    for n in range(2):
        expected = brute_force_advantages(*(x[:, n] for x in (rewards, values, following, durations, dones)))
        np.testing.assert_allclose(advantages[:, n], expected, atol=1e-4)


def test_another_gamma_inside_skills_is_refused():
    model = SMDPPPO("MlpPolicy", make_env(linear_skills(), gamma=0.95), gamma=0.99, **SHORT)
    with pytest.raises(ValueError, match=r"skills that discount by the learner's 0\.99 but got 0\.95"):
        model.learn(64)


def test_another_buffer_is_refused():
    with pytest.raises(ValueError, match="Derive yours from SMDPRolloutBuffer"):
        SMDPPPO("MlpPolicy", make_env(), rollout_buffer_class=gym.Env, **SHORT)


def test_save_load_predict_and_continue(tmp_path):
    model = SMDPPPO("MlpPolicy", make_env(linear_skills()), **SHORT).learn(64)
    model.save(tmp_path / "agent.zip")
    loaded = SMDPPPO.load(tmp_path / "agent.zip", env=make_env(linear_skills()), device="cpu")
    assert isinstance(loaded.rollout_buffer, SMDPRolloutBuffer)
    assert (loaded.num_frames, loaded.num_timesteps) == (model.num_frames, 64)
    observation = np.zeros((4, SIZE), np.float32)
    assert np.array_equal(
        loaded.predict(observation, deterministic=True)[0], model.predict(observation, deterministic=True)[0]
    )
    before = loaded.num_frames
    loaded.learn(64, reset_num_timesteps=False)
    assert loaded.num_timesteps == 128 and loaded.num_frames > before + 32
    loaded.learn(32)
    assert loaded.num_timesteps == 32 and loaded.num_frames < before + 32 * 25


@pytest.mark.parametrize("kind", ["callback", "list", "function"])
def test_callbacks_of_every_kind_follow_the_training(kind):
    def note(locals_, globals_):
        noted.append(locals_["self"].num_timesteps)
        return True

    noted, curve = [], CurveCallback()
    callback = {"callback": curve, "list": [curve], "function": note}[kind]
    SMDPPPO("MlpPolicy", make_env(linear_skills()), **SHORT).learn(96, callback=callback)
    if kind == "function":
        assert noted == list(range(2, 97, 2))  # after every step of both environments
    else:
        assert [row["steps"] for row in curve.rows] == [32, 64, 96]
        assert curve.rows[-1]["frames"] > 96 and {"return", "success"} <= curve.rows[-1].keys()


def test_a_callback_can_stop_training():
    model = SMDPPPO("MlpPolicy", make_env(linear_skills()), **SHORT).learn(96, callback=lambda locals_, globals_: False)
    assert model.num_timesteps == 2


@pytest.mark.filterwarnings("ignore::tqdm.TqdmExperimentalWarning")  # Stable-Baselines3 chose tqdm's rich bar
def test_progress_bar(capsys):
    pytest.importorskip("rich")
    SMDPPPO("MlpPolicy", make_env(linear_skills()), **SHORT).learn(32, progress_bar=True)
    assert "32/32" in capsys.readouterr().out.replace(" ", "")


def test_tensorboard_gets_usage_durations_and_frames(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    model = SMDPPPO("MlpPolicy", make_env(linear_skills()), tensorboard_log=str(tmp_path), **SHORT).learn(64)
    events = EventAccumulator(str(tmp_path / "SMDPPPO_1")).Reload()
    logged = {tag: events.Scalars(tag)[-1].value for tag in events.Tags()["scalars"]}
    assert logged["options/mean_duration"] > 1 and 0 < logged["options/share"] < 1
    usage = sum(value for tag, value in logged.items() if tag.startswith("options/usage_"))
    assert usage == pytest.approx(logged["options/share"])
    assert logged["time/frames"] == model.num_frames and "rollout/ep_rew_mean" in logged


def dqn(env, **options):
    return DQN("MlpPolicy", env, learning_starts=20, batch_size=32, train_freq=2, seed=1, device="cpu", **options)


def with_durations(gamma=0.99):
    return dict(gamma=gamma, replay_buffer_class=SMDPReplayBuffer, replay_buffer_kwargs={"gamma": gamma})


def test_dqn_with_durations_of_1_equals_dqn_bit_for_bit():
    plain = dqn(make_env(ONE_STEP), gamma=0.99).learn(300)
    ours = dqn(make_env(ONE_STEP), **with_durations()).learn(300)
    assert plain._n_updates > 50
    assert_same_parameters(plain, ours)


def test_dqn_targets_equal_brute_force():
    """Q-learning targets R + γ^τ max Q, no bootstrap after an end, but after a time limit."""
    model = dqn(make_env(linear_skills(), gamma=GAMMA), **with_durations(GAMMA)).learn(200)
    buffer = model.replay_buffer
    np.random.seed(0)
    samples = buffer.sample(500)
    np.random.seed(0)
    rows = np.random.randint(0, buffer.pos, size=500)
    columns = np.random.randint(0, 2, size=500)
    with torch.no_grad():
        q = model.q_net_target(samples.next_observations).max(1).values
    targets = samples.rewards + (1 - samples.dones) * samples.discounts * q[:, None]
    for i, at in enumerate(zip(rows, columns)):
        with torch.no_grad():
            best = float(model.q_net_target(torch.as_tensor(buffer.next_observations[at])[None]).max())
        real_end = buffer.dones[at] and not buffer.timeouts[at]
        expected = float(buffer.rewards[at]) + (0.0 if real_end else GAMMA ** int(buffer.durations[at]) * best)
        assert float(targets[i]) == pytest.approx(expected, abs=1e-5)
    assert buffer.durations.max() > 1 and buffer.timeouts.any()


def test_the_replay_buffer_stores_the_discounts_of_the_wrapper():
    space = gym.spaces.Box(-1, 1, (2,))
    buffer = SMDPReplayBuffer(10, space, gym.spaces.Discrete(3), "cpu", n_envs=1, gamma=GAMMA)
    zeros = np.zeros((1, 2), np.float32)
    buffer.add(zeros, zeros, np.zeros(1), np.ones(1), np.zeros(1), [{"duration": 4, "discount": GAMMA**4}])
    assert float(buffer.sample(1).discounts) == pytest.approx(GAMMA**4)
    with pytest.raises(ValueError, match=r"skills that discount by the learner's 0\.9 but got 0\.5"):
        buffer.add(zeros, zeros, np.zeros(1), np.ones(1), np.zeros(1), [{"duration": 4, "discount": 0.5**4}])
    with pytest.raises(ValueError, match="optimize_memory_usage=False"):
        options = {"optimize_memory_usage": True, "handle_timeout_termination": False, "gamma": GAMMA}
        SMDPReplayBuffer(10, space, gym.spaces.Discrete(3), **options)
