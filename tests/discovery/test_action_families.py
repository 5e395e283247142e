"""Families of action dimensions: chosen from data and action spaces, set by the user, and used by skills."""

import re

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.testing import assert_close

from pyro_options import Skills, discover
from pyro_options.data import Trajectories, collect, synthetic_options
from pyro_options.discovery import build, looks_one_hot, resolved_families
from pyro_options.envs import SkillWrapper
from pyro_options.options import CategoricalFamily, GaussianFamily, GaussianPolicy, MixedPolicy
from pyro_options.skills import label_scores, make_cards, to_skills
from pyro_options.skills.format import FORMAT
from pyro_options.viz import option_cards, write_report

SETTINGS = {"progress": False, "device": "cpu"}
GRIPPER = CategoricalFamily((-1.0, 1.0))


def continuous(**changes):
    data = synthetic_options(3, 40, (10, 30), num_actions=None, seed=101).trajectories
    return Trajectories(**{"states": data.states, "actions": data.actions, "lengths": data.lengths} | changes)


def with_gripper(dtype=torch.float32, scale=1.0, shift=0.0):
    """Two Gaussian dimensions, one of them saturated, and a gripper at two values between them."""
    data = continuous()
    arm, rest = data.actions[..., :1], data.actions[..., 1:2].clamp(-0.4, 0.9)
    gripper = torch.where(data.states[..., :1] + 0.3 * torch.randn_like(arm) > 0, 1.0, -1.0)
    actions = torch.cat([arm, gripper, rest], -1).to(dtype)
    return Trajectories(data.states.to(dtype), actions * scale + shift, data.lengths)


def several(num_episodes=60):
    """Two options that differ in both of two integers; states tell neither."""
    torch.manual_seed(0)
    N, T = num_episodes, 20
    options = torch.zeros(N, T, dtype=torch.long)
    for t in range(1, T):
        options[:, t] = torch.where(torch.rand(N) < 0.15, torch.randint(2, (N,)), options[:, t - 1])
    options = options ^ torch.randint(2, (N, 1))
    noise = torch.rand(N, T, 2) < 0.05
    actions = torch.where(noise, torch.randint(2, (N, T, 2)), torch.stack([options, 2 * options], -1))
    return Trajectories(torch.randn(N, T, 3), actions, num_actions=(2, 3)), options


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def test_families_are_found_in_the_data():
    found = resolved_families(with_gripper())
    low, high = np.float32(-0.4), np.float32(0.9)
    assert found == (GaussianFamily(), GRIPPER, GaussianFamily(float(low), float(high)))
    assert resolved_families(with_gripper(), censored=False) == (GaussianFamily(), GRIPPER, GaussianFamily())
    constant = continuous(actions=torch.full((40, 30, 1), -2.5))
    assert resolved_families(constant) == (CategoricalFamily((-2.5,)),)


@pytest.mark.parametrize("num_values, few", [(8, True), (9, False)])
def test_a_dimension_with_many_values_is_gaussian(num_values, few):
    values = torch.linspace(0, 1, num_values)[torch.randint(num_values, (40, 30, 1))]
    (found,) = resolved_families(continuous(actions=values))
    assert isinstance(found, CategoricalFamily) == few
    few_steps = Trajectories(torch.randn(1, 6, 2), torch.tensor([[[0.1], [0.2], [0.2], [0.1], [0.1], [0.2]]]))
    assert isinstance(resolved_families(few_steps)[0], GaussianFamily)


def test_a_known_bound_needs_no_share_of_the_steps():
    actions = 0.2 * torch.randn(40, 30, 1)
    actions[3, 2] = 1.0
    assert resolved_families(continuous(actions=actions)) == (GaussianFamily(),)
    known = continuous(actions=actions, action_bounds=[[-1.0], [1.0]])
    assert resolved_families(known) == (GaussianFamily(high=1.0),)
    assert resolved_families(known[:3]) == (GaussianFamily(),)
    actions[3, 3] = 1.5  # the environment does not clip
    assert resolved_families(continuous(actions=actions, action_bounds=[[-1.0], [1.0]])) == (GaussianFamily(),)


def test_families_can_be_set():
    data = with_gripper()
    assert resolved_families(data, "gaussian") == (GaussianFamily(),) * 3
    asked = ("auto", None, "gaussian")
    assert resolved_families(data, asked) == (GaussianFamily(), GRIPPER, GaussianFamily())
    wide = CategoricalFamily((-1, 0, 1))
    skills = discover(data, num_options=2, epochs=1, action_families=["gaussian", wide, "censored"], **SETTINGS)
    assert skills.policy.families[1] == wide and skills.policy.families[2].high == float(np.float32(0.9))
    plain = build(None, data, num_options=2, action_families="gaussian")
    assert plain.config.action_families == (GaussianFamily(),) * 3 and isinstance(plain.model.policy, GaussianPolicy)


@pytest.mark.parametrize(
    "asked, message",
    [
        ("poisson", "one of auto, categorical, censored, gaussian"),
        (["gaussian"], "a family for each of 3 action dimensions but got 1"),
        (["gaussian", "poisson", None], "one of auto"),
        ([None, CategoricalFamily((0.0, 1.0)), None], r"dimension 1 among \(0.0, 1.0\) but got -1"),
        ("categorical", "at most 256 values in the categorical dimension 0"),
        (3, "action_families as a name"),
    ],
)
def test_bad_settings_are_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        build(None, with_gripper(), num_options=2, action_families=asked)


def test_integers_are_categorical():
    data, _ = several()
    assert resolved_families(data) == (CategoricalFamily((0, 1)), CategoricalFamily((0, 1, 2)))
    with pytest.raises(ValueError, match="categorical families with integer actions"):
        resolved_families(data, "gaussian")
    single = Trajectories(data.states, data.actions[..., 0], num_actions=2)
    assert resolved_families(single) == "categorical"


def test_a_change_of_units_changes_nats_by_the_log_determinant_of_real_dimensions():
    scale, shift = torch.tensor([20.0, 0.013, 0.001]), torch.tensor([3.0, 7.0, 0.0])
    torch.manual_seed(3)
    data = with_gripper()
    other = Trajectories(data.states, data.actions * scale + shift, data.lengths)
    found = []
    for one in (data, other):
        torch.manual_seed(0)
        method = build(None, one, num_options=3, start="random")
        found.append(to_skills(method.model, method.guide).segment(one))
    inside = (data.actions[..., 2] > -0.4) & (data.actions[..., 2] < 0.9) & data.mask  # densities; others are masses
    determinant = float(torch.log(scale[0])) + float(torch.log(scale[2]) * inside.sum() / data.num_steps)
    gap = found[0].log_likelihood_per_step - found[1].log_likelihood_per_step
    assert gap == pytest.approx(determinant, abs=1e-4)
    assert ((found[0].options == found[1].options) | ~data.mask).float().mean() > 0.999


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(3)
    data = with_gripper()
    return data, discover(data, num_options=2, epochs=4, held_out=0.2, **SETTINGS)


def test_skills_with_a_gripper_act_and_are_saved(trained, tmp_path):
    data, skills = trained
    assert isinstance(skills.policy, MixedPolicy) and skills.num_actions is None and not skills.discrete
    assert skills.metadata["method"]["action_families"][1] == {"type": "CategoricalFamily", "values": [-1.0, 1.0]}
    skills.save(tmp_path / "skills.safetensors")
    again = Skills.load(tmp_path / "skills.safetensors")
    assert again.policy.families == skills.policy.families and again.describe() == skills.describe()
    assert again.log_likelihood(data) == skills.log_likelihood(data)
    states = data.states[0, :8].numpy()
    for one in (skills, again, again.only([1, 0])):
        for k in range(2):
            for deterministic in (True, False):
                drawn = one.predict(states, k, deterministic)
                assert drawn.shape == (8, 3) and set(drawn[:, 1].tolist()) <= {-1.0, 1.0}
                assert (drawn[:, 2] >= np.float32(-0.4)).all() and (drawn[:, 2] <= np.float32(0.9)).all()
    assert np.array_equal(skills.predict(states, 0), again.predict(states, 0))
    each = skills.predict(states, np.array([0, 1] * 4))
    np.testing.assert_allclose(each[::2], skills.predict(states, 0)[::2], rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        distribution = skills.policy(data.states[:1, :8])
    mean = distribution.gaussian.mean_action[0, :, 0]
    found = torch.tensor(skills.predict(states, 0))
    assert_close(found[:, 0], mean[:, 0], atol=1e-4, rtol=1e-4)
    assert_close(found[:, 1], 2.0 * distribution.choices[0].logits[0, :, 0].argmax(-1) - 1)
    table = skills.describe().split("\n\n")[0].splitlines()
    assert all("mean " in line and re.search(r"\[1\] -?1 \d+%", line) for line in table[1:])


def test_random_actions_have_the_probabilities_of_the_policy(trained):
    data, skills = trained
    state = data.states[0, 0].numpy()
    rng = np.random.default_rng(0)
    drawn = np.stack([skills.predict(state, 1, deterministic=False, rng=rng) for _ in range(2000)])
    chance = torch.softmax(skills.policy(data.states[:1, :1]).choices[0].logits[0, 0, 1], -1)[1]
    assert (drawn[:, 1] == 1).mean() == pytest.approx(float(chance), abs=0.04)
    assert drawn[:, 0].std() == pytest.approx(float(skills.action_scale[1, 0]), rel=0.1)


@pytest.mark.parametrize("kind", ["gripper", "integers"])
def test_imitation_has_the_likelihood_of_the_model(trained, kind):
    data, skills = trained
    if kind == "integers":
        data, _ = several(6)
        skills = discover(data, num_options=2, epochs=2, **SETTINGS)
    data, skills = data[:5], skills.only([0, 1])
    skills.log_weights -= torch.logsumexp(skills.log_weights, 0)
    imitation, total = skills.imitation(), 0.0
    for i in range(len(data)):
        belief = None
        for t in range(int(data.lengths[i])):
            state, action = data.states[i, t].numpy(), data.actions[i, t].numpy()
            arrived = imitation.options(state, belief)
            total += np.log((arrived * np.exp(imitation._scores(skills.outputs(state), action))).sum())
            belief = imitation.update(state, action, belief)
    assert total / data.num_steps == pytest.approx(skills.log_likelihood(data), abs=1e-4)
    action, belief = imitation.predict(data.states[:5, 0].numpy(), deterministic=False)
    assert action.shape == (5, data.actions.shape[-1]) and belief.shape == (5, 2)


def test_values_that_training_has_not_seen_are_an_error(trained):
    data, skills = trained
    actions = data.actions.clone()
    actions[2, 1, 1] = 0.5
    message = r"dimension 1 to be one of -1, 1 but got 0\.5 at episode 2, step 1"
    with pytest.raises(ValueError, match=message):
        skills.log_likelihood(Trajectories(data.states, actions, data.lengths))
    with pytest.raises(ValueError, match=r"dimension 1 to be one of -1, 1 but got 0\.5"):
        skills.imitation().update(data.states[2, 1].numpy(), actions[2, 1].numpy())
    with pytest.raises(ValueError, match="actions of 3 dimensions"):
        skills.segment(continuous())
    double = data.to(dtype=torch.float64)
    assert skills.log_likelihood(double) == pytest.approx(skills.log_likelihood(data), abs=1e-5)


def test_files_with_other_families_are_refused(trained, tmp_path):
    path = tmp_path / "skills.safetensors"
    trained[1].save(path)
    config, tensors = FORMAT.read(path)
    FORMAT.write(path, config | {"families": [{"type": "Poisson"}]}, tensors)
    with pytest.raises(ValueError, match="CategoricalFamily, GaussianFamily but got 'Poisson'"):
        Skills.load(path)


def test_cards_and_reports_show_mixed_actions(trained, tmp_path):
    data, skills = trained
    assert skills.action_columns == ["dimension 0", "dimension 2", "dimension 1 = -1", "dimension 1 = 1"]
    assert_close(skills.summary.actions[:, 2:].sum(-1), torch.ones(2))
    write_report(tmp_path / "report.html", skills, data)
    assert "dimension 1 = -1" in (tmp_path / "report.html").read_text()
    segmentation = skills.segment(data)
    cards = make_cards(segmentation, skills.summarize(data, segmentation).actions)
    figure = option_cards(cards, skills.names, skills.action_columns, discrete=False)
    figure.savefig(tmp_path / "cards.png")


@pytest.mark.parametrize("method", ["options-exact", "options-paper", "compile"])
def test_multi_discrete_end_to_end(method, tmp_path):
    data, options = several()
    settings = {"num_options": 2, "held_out": 0.2, "epochs": 30 if method == "options-exact" else 2}
    skills = discover(data, method, **settings, **SETTINGS)
    assert skills.num_actions == (2, 3) and np.isfinite(skills.metadata["log_likelihood"]["held_out"])
    if method == "options-exact":
        segmentation = skills.segment(data)
        assert label_scores(segmentation.options, options, data.mask).accuracy > 0.95
        assert skills.log_likelihood(data) > -0.9  # uniform guessing has -1.79
    skills.save(tmp_path / "skills.safetensors")
    again = Skills.load(tmp_path / "skills.safetensors")
    assert again.log_likelihood(data) == skills.log_likelihood(data)
    action = again.predict(data.states[0, 0].numpy(), 0, deterministic=False)
    assert action.dtype == np.int64 and action.shape == (2,) and "[1] " in again.describe()


def test_options_grow_over_mixed_actions():
    data, _ = several(40)
    skills = discover(data, epochs=6, check_every=5, initial_options=1, birth="random", **SETTINGS)
    assert np.isfinite(skills.metadata["log_likelihood"]["train"]) and skills.metadata["growth"]


class Panel(gym.Env):
    """Two integers a step, counted from one in the first; observes them."""

    observation_space = spaces.Box(0, 5, (2,), np.float32)
    action_space = spaces.MultiDiscrete([2, 3], start=[1, 0])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.time += 1
        return action.astype(np.float32), 0.0, False, self.time == 8, {}


def test_multi_discrete_environments_are_recorded_and_acted_in():
    def expert(observation):
        return np.array([1 + (observation[1] > 0), (observation[1] + 1) % 3], np.int64)

    data = collect(Panel(), expert, 3, epsilon=0.2)
    assert data.num_actions == (2, 3) and data.actions.shape == (3, 8, 2) and data.actions[..., 0].max() == 1
    with pytest.raises(ValueError, match="Expected an action of MultiDiscrete"):
        collect(Panel(), lambda _: np.array([0, 0]), 1)
    skills = discover(data, num_options=2, epochs=2, **SETTINGS)
    env = SkillWrapper(Panel(), skills, primitives=False, deterministic=False, imitate=True, max_duration=3)
    env.reset(seed=0)
    for action in (0, 1, 2):
        observation, *_ = env.step(action)
        assert 1 <= observation[0] <= 2
    other = Panel()
    other.action_space = spaces.MultiDiscrete([2, 4])
    with pytest.raises(ValueError, match=r"skills over \(2, 4\) actions but got \(2, 3\)"):
        SkillWrapper(other, skills, primitives=False)


def test_a_box_gives_its_bounds():
    class Box(Panel):
        action_space = spaces.Box(*np.array([[-1, -np.inf], [1, np.inf]], np.float32))

    data = collect(Box(), lambda _: np.array([0.5, 2.0]), 2)
    assert data.action_bounds.tolist() == [[-1, -np.inf], [1, np.inf]]


def test_one_hot_actions_are_noticed():
    codes = torch.nn.functional.one_hot(torch.randint(3, (4, 6)), 3).float()
    mask = torch.arange(6) < torch.tensor([6, 3, 2, 6]).unsqueeze(-1)
    assert looks_one_hot(codes) and looks_one_hot(codes * mask.unsqueeze(-1), mask)
    assert not looks_one_hot(codes * mask.unsqueeze(-1)) and not looks_one_hot(2 * codes)
    assert not looks_one_hot(torch.randint(2, (50, 3)).float()) and not looks_one_hot(torch.ones(5, 1))
    data = Trajectories(torch.randn(4, 6, 2), codes)
    assert looks_one_hot(data.actions, data.mask) and not data.discrete  # nothing converts them
