"""Imitation with all options together: the predictive of the model against brute force, and in an environment."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv
from support.paths import enumerate_paths
from support.skill_envs import assert_checkers_accept
from support.skill_sets import A, D, K, LinearSkills, make_data, make_skills, states

from pyro_options.data import Trajectories, collect
from pyro_options.envs import SkillWrapper
from pyro_options.segments import PoissonSegments
from pyro_options.skills import Skills


def log_likelihood(skills, episode):
    """log p(a_0..T | s_0..T) of one episode, a step at a time: of each action given what came before."""
    imitation, belief, total = skills.imitation(), None, 0.0
    emission = skills.policy(episode.states).component_log_prob(episode.actions)[0].double().exp().numpy()  # (T, K)
    for t, (state, action) in enumerate(zip(episode.states[0].numpy(), episode.actions[0].numpy())):
        chance = imitation.options(state, belief) @ emission[t]
        if skills.discrete:
            assert imitation.action_probabilities(state, belief)[action] == pytest.approx(chance, rel=1e-4)
        total += np.log(chance)
        belief = imitation.update(state, action, belief)
    return total


@pytest.mark.parametrize("kind", ["linear", "varying", "deep", "custom"])
@pytest.mark.parametrize("discrete", [True, False])
def test_predictions_multiply_to_the_likelihood(kind, discrete):
    """Which Skills.log_likelihood gets in another way."""
    skills = make_skills(kind, discrete, leftover=0.0)
    for episode in (make_data(discrete)[i : i + 1] for i in range(3)):
        episode = episode.cut(int(episode.lengths[0]))
        expected = skills.log_likelihood(episode) * episode.num_steps
        assert log_likelihood(skills, episode) == pytest.approx(expected, rel=1e-4)


def test_beliefs_equal_enumeration():
    """Before an action, with nothing known of it, and after it."""
    skills = make_skills(leftover=0.0)
    seen, actions = states(3), [2, 0, 1]
    emission = skills.policy(seen[None]).component_log_prob(torch.tensor([actions]))[0].double()
    logits = skills.termination(seen).double()

    def expected(t, emission):
        found = enumerate_paths(skills.log_weights.double(), logits[: t + 1], emission[: t + 1])
        return [float(found.posterior[found.options[:, t] == k].sum()) for k in range(K)]

    imitation, belief = skills.imitation(), None
    for t in range(3):
        unknown = emission.index_fill(0, torch.tensor(t), 0.0)
        np.testing.assert_allclose(imitation.options(seen[t].numpy(), belief), expected(t, unknown), rtol=1e-5)
        belief = imitation.update(seen[t].numpy(), actions[t], belief)
        np.testing.assert_allclose(belief, expected(t, emission), rtol=1e-5)


def test_one_option_is_that_option():
    skills = make_skills().only([2])
    imitation, seen, belief = skills.imitation(), states(9).numpy(), None
    for one in seen:
        action, belief = imitation.predict(one, belief)
        assert action == skills.predict(one, 0) and belief.tolist() == [1.0]
        assert imitation.switch_probability(one, belief) == pytest.approx(skills.termination_probability(one, 0))


@pytest.mark.parametrize("discrete", [True, False])
def test_a_batch_of_episodes_gives_the_results_of_each_alone(discrete):
    skills = make_skills(discrete=discrete)
    imitation, seen = skills.imitation(), states(4, 3).numpy()
    starts = np.array([[1, 1, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0]], bool)
    together, alone = None, [None] * 3
    for t in range(4):
        actions, together = imitation.predict(seen[t], together, starts[t])
        for i in range(3):
            action, alone[i] = imitation.predict(seen[t, i], None if starts[t, i] else alone[i])
            np.testing.assert_allclose(actions[i], action, rtol=1e-6)
            np.testing.assert_allclose(together[i], alone[i], rtol=1e-6)
        chances = imitation.switch_probability(seen[t], together)
        assert chances.shape == (3,) and isinstance(imitation.switch_probability(seen[t, 0], alone[0]), float)


def test_the_most_probable_action_and_random_ones():
    skills, one = make_skills(), states(1)[0].numpy()
    imitation = skills.imitation()
    expected = imitation.action_probabilities(one)
    assert expected.sum() == pytest.approx(1) and imitation.predict(one)[0] == expected.argmax()
    many = np.repeat(one[None], 30_000, 0)
    drawn, _ = imitation.predict(many, deterministic=False, rng=np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(drawn, minlength=A) / len(drawn), expected, atol=0.02)
    again, _ = imitation.predict(many, deterministic=False, rng=np.random.default_rng(0))
    assert (drawn == again).all()


def test_continuous_actions_are_those_of_the_most_probable_option():
    skills, one = make_skills(discrete=False), states(1)[0].numpy()
    option = int(skills.log_weights.argmax())
    np.testing.assert_allclose(skills.imitation().predict(one)[0], skills.predict(one, option))
    assert skills.imitation().predict(one, deterministic=False)[0].shape == (A,)


def test_impossible_actions_leave_a_normalized_belief():
    skills = make_skills(discrete=False)
    belief = skills.imitation().update(states(1)[0].numpy(), np.full(A, 1e6))
    assert np.isfinite(belief).all() and belief.sum() == pytest.approx(1)


@pytest.mark.parametrize("discrete", [True, False])
def test_an_option_of_almost_no_weight_has_no_effect(discrete):
    skills = make_skills(discrete=discrete)
    skills.log_weights[0] = -900.0
    imitation, belief = skills.imitation(), None
    for one in states(5).numpy():
        _, belief = imitation.predict(one, belief, deterministic=False)
        assert belief[0] == 0 and belief.sum() == pytest.approx(1)


def test_bad_input():
    skills, one = make_skills(), states(1)[0].numpy()
    imitation = skills.imitation()
    with pytest.raises(ValueError, match=r"a belief of shape \(4,\) but got \(3,\)"):
        imitation.predict(one, np.full(3, 1 / 3))
    with pytest.raises(ValueError, match=r"episode_start of 1 observations but got \(2,\)"):
        imitation.predict(one, np.full(K, 1 / K), [True, False])
    for action in (A, -1, 0.5, [0, 1]):
        with pytest.raises(ValueError, match=r"integers in \[0, 2\]"):
            imitation.update(one, action)
    with pytest.raises(ValueError, match="actions of shape"):
        make_skills(discrete=False).imitation().update(one, np.zeros(A + 1))
    with pytest.raises(ValueError, match="continuous actions but got 3 discrete"):
        skills.action_scale  # noqa: B018
    segments = make_skills(segments=PoissonSegments(3, 4.0))
    with pytest.raises(ValueError, match="segments of CompILE"):
        segments.imitation()


class Cards(gym.Env):
    """Random bits; the actions taken are remembered."""

    action_space = gym.spaces.Discrete(A)
    observation_space = gym.spaces.Box(0, 1, (D,), np.float32)

    def _next(self):
        self.seen.append(self.np_random.integers(0, 2, D).astype(np.float32))
        return self.seen[-1]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen, self.taken = [], []
        return self._next(), {}

    def step(self, action):
        self.taken.append(int(action))
        return self._next(), 1.0, False, len(self.taken) == 50, {}


def test_the_wrapper_imitates_with_what_was_seen_and_done_since_the_start():
    skills = make_skills()
    env = SkillWrapper(Cards(), skills, imitate=True, max_duration=3)
    assert env.action_space == gym.spaces.Discrete(A + K + 1) and env.num_options == K + 1
    inside, imitation = env.unwrapped, skills.imitation()
    durations = []
    for seed in range(3):
        env.reset(seed=seed)
        for action in [0, A + 1, A + K, 2, A + K, A + K, A + K]:
            before = len(inside.taken)
            _, _, _, _, info = env.step(action)
            belief, did = None, range(before, len(inside.taken))
            for t, (state, taken) in enumerate(zip(inside.seen, inside.taken)):
                if t in did and action == A + K:
                    assert taken == imitation.predict(state, belief)[0]
                belief = imitation.update(state, taken, belief)
            assert info["duration"] == len(did) and info["option"] == action - A if action >= A else -1
            durations += [info["duration"]] * (action == A + K)
    assert len(set(durations)) > 1  # it stops where options do


class Reach(Cards):
    """The same with continuous actions."""

    action_space = gym.spaces.Box(-1, 1, (A,), np.float32)

    def step(self, action):
        assert self.action_space.contains(action)
        self.taken.append(0)
        return self._next(), 1.0, False, len(self.taken) == 50, {}


def test_the_wrapper_imitates_with_continuous_actions():
    env = SkillWrapper(Reach(), make_skills(discrete=False), imitate=True, primitives=False, deterministic=False)
    assert env.action_space == gym.spaces.Discrete(K + 1)
    env.reset(seed=0)
    truncated = False
    while not truncated:
        *_, truncated, info = env.step(K)
    assert len(env.unwrapped.taken) == 50 and info["option"] == K


def test_imitation_stops_with_the_probability_of_the_options():
    skills = make_skills("linear")
    torch.nn.init.zeros_(skills.termination.heads.weight)
    torch.nn.init.constant_(skills.termination.heads.bias, -1.0)
    env = SkillWrapper(Cards(), skills, imitate=True)
    durations = []
    for seed in range(150):
        env.reset(seed=seed)
        done = False
        while not done:
            *_, done, info = env.step(A + K)
            durations += [] if done else [info["duration"]]
    psi = float(skills.termination_probability(np.zeros(D), 0))
    assert np.mean(durations) == pytest.approx(1 / psi, rel=0.08)


def test_seeds_reproduce_and_both_libraries_take_it():
    def trace(seed):
        env.reset(seed=seed)
        rng = np.random.default_rng(seed)
        return [env.step(int(rng.integers(A + K + 1)))[4]["duration"] for _ in range(10)]

    env = SkillWrapper(Cards(), make_skills(), imitate=True, deterministic=False, max_duration=4)
    assert trace(1) == trace(1) != trace(2)
    assert_checkers_accept(env, skip_render_check=True)
    imitation = make_skills().imitation()
    mean, _ = evaluate_policy(imitation, DummyVecEnv([Cards] * 2), 4, warn=False)
    assert mean == 50
    recorded = collect(Cards(), imitation, 3, progress=False)
    assert isinstance(recorded, Trajectories) and recorded.num_steps == 150


def test_skills_that_cannot_imitate_are_refused():
    for skills in (None, LinearSkills(D, 2, A)):
        with pytest.raises(ValueError, match=r"imitation\(\) to imitate with"):
            SkillWrapper(Cards(), skills, imitate=True)


def test_a_subset_and_a_loaded_file_imitate(tmp_path):
    skills = make_skills()
    skills.save(tmp_path / "skills.safetensors")
    loaded, seen = Skills.load(tmp_path / "skills.safetensors"), states(5).numpy()
    assert (loaded.imitation().predict(seen)[0] == skills.imitation().predict(seen)[0]).all()
    assert skills.only([3, 0]).imitation().options(seen).shape == (5, 2)
