"""Skills as actions of an environment; vector environments and checkers accept the wrapper."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
from support.skill_envs import assert_checkers_accept, linear_skills, switches_with_skills
from support.skill_sets import ScriptedSkills

from pyro_options.envs import SkillWrapper, SwitchesEnv, SwitchesExpert, agent_space, make_atari, ram


class Line(gym.Env):
    """Walk right along 0, 1, 2, …; the reward of a step is where it leads, and 20 is the end."""

    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Box(0, 20, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return np.array([0], np.float32), {}

    def step(self, action):
        self.x += int(action)
        return np.array([self.x], np.float32), float(self.x), self.x == 20, False, {"x": self.x}


#: walk to the next multiple of five, and for ever
WALKS = ScriptedSkills(act=lambda x, k: 1, stop=lambda x, k: k == 0 and x[0] % 5 == 0, num_options=2, num_actions=2)


def test_a_skill_is_one_step_with_discounted_rewards():
    env = SkillWrapper(Line(), WALKS, gamma=0.9)
    assert env.action_space == gym.spaces.Discrete(4)
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(2)
    assert observation == [5] and not terminated and not truncated
    assert reward == pytest.approx(sum(0.9**j * (j + 1) for j in range(5)))
    assert {**info, "discount": None} == dict(x=5, option=0, duration=5, num_frames=5, discount=None)
    assert info["discount"] == pytest.approx(0.9**5)


def test_primitive_actions_are_unchanged():
    env = SkillWrapper(Line(), WALKS, gamma=0.9, frame_skip=4)
    env.reset(seed=0)
    observation, reward, _, _, info = env.step(1)
    assert observation == [1] and reward == 1.0
    assert (info["option"], info["duration"], info["num_frames"], info["discount"]) == (-1, 1, 4, 0.9)


def test_termination_depends_on_the_next_state():
    """A skill that would stop where it starts still acts once."""
    env = SkillWrapper(Line(), WALKS)
    env.reset(seed=0)
    assert [env.step(2)[4]["duration"] for _ in range(3)] == [5, 5, 5]


def test_a_skill_ends_with_the_episode():
    env = SkillWrapper(Line(), WALKS)
    env.reset(seed=0)
    observation, _, terminated, truncated, info = env.step(3)
    assert observation == [20] and terminated and not truncated and info["duration"] == 20


def test_a_time_limit_inside_cuts_a_skill():
    env = SkillWrapper(TimeLimit(Line(), 7), WALKS)
    env.reset(seed=0)
    _, _, terminated, truncated, info = env.step(3)
    assert truncated and not terminated and info["duration"] == 7


@pytest.mark.parametrize("own, given, expected", [(None, 3, 3), (4, None, 4), (4, 6, 6)])
def test_max_duration_stops_a_skill(own, given, expected):
    skills = ScriptedSkills(lambda x, k: 1, lambda x, k: False, 1, 2, max_duration=own)
    env = SkillWrapper(Line(), skills, max_duration=given)
    env.reset(seed=0)
    assert env.step(2)[4]["duration"] == expected


def test_without_skills_the_environment_is_unchanged():
    plain, wrapped = SwitchesEnv(), SkillWrapper(SwitchesEnv(), None)
    assert wrapped.action_space == plain.action_space
    plain.reset(seed=3), wrapped.reset(seed=3)
    for action in np.random.default_rng(0).integers(5, size=50):
        expected, found = plain.step(action), wrapped.step(action)
        assert np.array_equal(expected[0], found[0]) and expected[1:4] == found[1:4]
        assert found[4]["duration"] == 1 and found[4]["option"] == -1


def trace(env, seed, num_steps=200):
    """Everything that happens under actions that follow the seed too."""
    env.reset(seed=seed)
    rng, rows = np.random.default_rng(seed), []
    for _ in range(num_steps):
        observation, reward, terminated, truncated, info = env.step(rng.integers(env.action_space.n))
        rows.append((observation.tobytes(), reward, terminated, truncated, info["duration"]))
        if terminated or truncated:
            env.reset()
    return rows


@pytest.mark.parametrize("deterministic", [True, False])
def test_seeds_reproduce(deterministic):
    env = SkillWrapper(SwitchesEnv(), linear_skills(), deterministic=deterministic)
    assert trace(env, 1) == trace(env, 1)
    assert trace(env, 1) != trace(env, 2)


def test_termination_is_drawn_with_its_probability():
    skills = linear_skills(1, termination_logit=-2.0)
    skills.stop_weights[:] = 0
    env = SkillWrapper(SwitchesEnv(order=(0, 1, 2, 3), max_steps=10**9), skills)
    env.reset(seed=0)
    durations = [env.step(5)[4]["duration"] for _ in range(2000)]
    psi = 1 / (1 + np.exp(2))
    assert np.mean(durations) == pytest.approx(1 / psi, rel=0.08)


def test_the_checks_of_gymnasium_and_stable_baselines_pass():
    for render in (None, "rgb_array"):
        env = SkillWrapper(gym.make("pyro_options/Switches-v0", render_mode=render), linear_skills(), max_duration=10)
        assert_checkers_accept(env)


def make_wrapped():
    return switches_with_skills(linear_skills(), max_steps=60, max_duration=10)


def drive(venv, actions):
    venv.seed(7)
    venv.reset()
    rows = []
    for action in actions:
        observation, rewards, dones, infos = venv.step(action)
        rows.append((observation.copy(), rewards.copy(), dones.copy(), [info["duration"] for info in infos]))
    venv.close()
    return rows


def test_vector_environments_of_stable_baselines_agree():
    actions = np.random.default_rng(0).integers(8, size=(60, 2))
    here = drive(DummyVecEnv([make_wrapped] * 2), actions)
    apart = drive(SubprocVecEnv([make_wrapped] * 2, start_method="fork"), actions)
    for one, other in zip(here, apart):
        assert all(np.array_equal(a, b) for a, b in zip(one, other))
    assert any(row[2].any() for row in here) and max(max(row[3]) for row in here) > 1


@pytest.mark.parametrize("vector", [gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv])
def test_vector_environments_of_gymnasium(vector):
    env = vector([make_wrapped] * 2)
    assert env.single_action_space == gym.spaces.Discrete(8)
    env.reset(seed=0)
    durations = []
    for action in np.random.default_rng(0).integers(8, size=(40, 2)):
        info = env.step(action)[-1]
        durations.append(info.get("duration", np.zeros(2)))
    env.close()
    assert np.max(durations) > 1


def test_monitor_inside_reports_the_true_return():
    """The expert's return is 1; outside, Monitor would report less, because rewards inside a skill are discounted."""
    inner = SwitchesEnv()
    expert = SwitchesExpert(inner)
    skills = ScriptedSkills(
        lambda x, k: expert.predict(x)[0], lambda x, k: False, 1, 5, state_dim=inner.observation_space.shape[0]
    )
    for env, expected in (
        (SkillWrapper(Monitor(inner), skills, gamma=0.9), 1.0),
        (Monitor(SkillWrapper(inner, skills, gamma=0.9)), None),
    ):
        env.reset(seed=0)
        _, reward, terminated, _, info = env.step(5)
        assert terminated and reward < 1
        assert info["episode"]["r"] == (expected if expected else pytest.approx(reward, abs=1e-6))
        assert info["episode"]["l"] == (info["duration"] if expected else 1)


def test_evaluate_policy_sees_true_returns():
    class First:
        def predict(self, observation, state=None, episode_start=None, deterministic=True):
            return np.full(len(observation), 3), state

    rewards, lengths = evaluate_policy(First(), SkillWrapper(Monitor(Line()), WALKS), 1, return_episode_rewards=True)
    assert rewards == [sum(range(1, 21))] and lengths == [20]


def test_skills_may_have_observations_of_their_own():
    seen = []
    skills = ScriptedSkills(lambda x, k: seen.append(x) or 0, lambda x, k: False, 1, 5, state_dim=50, max_duration=3)
    env = SkillWrapper(SwitchesEnv(), skills, observe=agent_space)
    env.reset(seed=0)
    env.step(5)
    assert [x.shape for x in seen] == [(50,)] * 3
    with pytest.raises(ValueError, match=r"states of 50 numbers for the skills but got 54\. Pass observe="):
        SkillWrapper(SwitchesEnv(), skills).reset(seed=0)


def test_skills_read_ram_while_the_agent_reads_pixels():
    """At the agent's rate: one decision of the skill for each of the agent's, four frames apart."""
    pytest.importorskip("cv2")
    seen = []
    skills = ScriptedSkills(
        lambda x, k: seen.append(x.copy()) or 0, lambda x, k: False, 1, 6, state_dim=1024, max_duration=5
    )
    env = SkillWrapper(make_atari("Pong", observation="pixels", noops=1), skills, observe=ram, frame_skip=4)
    observation, _ = env.reset(seed=0)
    before = env.unwrapped.ale.getEpisodeFrameNumber()
    observation, _, _, _, info = env.step(6)
    assert observation.shape == (4, 84, 84)
    assert env.unwrapped.ale.getEpisodeFrameNumber() - before == info["num_frames"] == 20
    assert len(seen) == 5 and seen[0].dtype == np.uint8 and not np.array_equal(seen[0], seen[1])


def test_frames_are_recorded_only_on_request():
    env = SkillWrapper(SwitchesEnv(render_mode="rgb_array"), linear_skills(), max_duration=4, record_frames=True)
    env.reset(seed=0)
    info = env.step(6)[4]
    assert len(info["frames"]) == info["duration"] and info["frames"][0].ndim == 3
    quiet = SkillWrapper(SwitchesEnv(render_mode="rgb_array"), linear_skills())
    quiet.reset(seed=0)
    assert "frames" not in quiet.step(6)[4]
    shown = SwitchesEnv(render_mode="rgb_array")
    shown.render_mode = "human"
    for env in (SwitchesEnv(), shown):
        with pytest.raises(ValueError, match=r"render_mode to record frames.*rgb_array"):
            SkillWrapper(env, linear_skills(), record_frames=True)


def test_actions_that_do_not_start_at_zero():
    class Shifted(Line):
        action_space = gym.spaces.Discrete(2, start=5)

        def step(self, action):
            return super().step(action - 5)

    env = SkillWrapper(Shifted(), WALKS)
    env.reset(seed=0)
    assert env.step(1)[0] == [1] and env.step(0)[0] == [1] and env.step(2)[0] == [5]


class Push(ScriptedSkills):
    discrete = False

    def predict(self, observation, option, deterministic=True, rng=None):
        return np.array([1.0 if option else -1.0], np.float32)


def test_continuous_actions_are_clipped_to_the_space():
    seen = []

    class Spy(gym.Wrapper):
        def step(self, action):
            seen.append(action)
            return self.env.step(action)

    class Far(Push):
        def predict(self, observation, option, deterministic=True, rng=None):
            return np.full(1 + option, 5.0)

    skills = Far(None, lambda x, k: True, 2, None, state_dim=3)
    env = SkillWrapper(Spy(gym.make("Pendulum-v1")), skills, primitives=False)
    env.reset(seed=0)
    env.step(0)
    assert seen == [[2.0]] and env.unwrapped.action_space.contains(seen[0])
    with pytest.raises(ValueError, match=r"skills whose actions have the shape \(1,\) but got \(2,\)"):
        env.step(1)


def test_continuous_skills_need_a_box():
    class Switchboard(SwitchesEnv):
        def __init__(self):
            super().__init__()
            self.action_space = gym.spaces.MultiBinary(1)

    with pytest.raises(ValueError, match="a Discrete or a Box for skills to act in but got MultiBinary"):
        SkillWrapper(Switchboard(), Push(None, None, 2, None), primitives=False)


def test_a_box_has_skills_but_no_primitive_actions():
    env = gym.make("MountainCarContinuous-v0")
    skills = Push(None, lambda x, k: False, 2, None, state_dim=2, max_duration=10)
    wrapped = SkillWrapper(env, skills, primitives=False)
    assert wrapped.action_space == gym.spaces.Discrete(2)
    wrapped.reset(seed=0)
    assert wrapped.step(1)[0][1] > 0 > wrapped.step(0)[0][1]
    with pytest.raises(ValueError, match="Expected Discrete actions to add skills to but got Box"):
        SkillWrapper(env, skills)
    with pytest.raises(ValueError, match="Expected skills, or primitives=True but got neither"):
        SkillWrapper(env, None, primitives=False)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(gamma=0.0), r"gamma in \(0, 1\]"),
        (dict(max_duration=0), "max_duration >= 1"),
        (dict(frame_skip=0), "frame_skip >= 1"),
        (dict(skills=WALKS), "skills over 5 actions but got 2"),
        (dict(skills=3), "predict and terminates but got int"),
    ],
)
def test_bad_input_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SkillWrapper(SwitchesEnv(), **{"skills": linear_skills(), **options})


def test_an_unknown_action_is_refused():
    env = SkillWrapper(SwitchesEnv(), linear_skills(3))
    for action in (0, 6):
        with pytest.raises(ValueError, match=r"reset\(\) before step\(\)"):
            env.step(action)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"an action in \[0, 7\] but got 8"):
        env.step(8)
