"""The record of trust: what it measures, and that it warns of what cannot be trusted."""

import numpy as np
import pytest
import torch
from support.episodes import make_continuous_episodes, make_episodes
from support.skill_sets import make_data, make_skills

from pyro_options.data import Trajectories, synthetic_options
from pyro_options.discovery import discover
from pyro_options.discovery.trust import input_warnings, memoryless_scores, share_at_bounds, state_reveals
from pyro_options.errors import DiscoveryWarning
from pyro_options.options import GaussianFamily, Termination
from pyro_options.skills import Gain, Skills, Trust
from pyro_options.skills.segmentation import Segmentation


def make_trust(**given):
    return Trust(**{"num_options": 4} | given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"gain": Gain(0.01, 0.02)}, "one policy suffices"),
        ({"gain": Gain(0.5, 0.02), "gain_over_larger": Gain(-0.1, 0.02)}, "larger network"),
        ({"mean_length": 1.2}, "last 1.2 steps"),
        ({"gain_over_memoryless": Gain(0.01, 0.02)}, "drawn anew at every step"),
        ({"gain_over_memoryless": Gain(0.01, 0.02), "mean_length": 1.2}, "last 1.2 steps"),
        ({"chance": -0.3}, "random guessing"),
        ({"other_counts": (1, 7)}, "1, 4, 7 were found"),
        ({"agreement": 0.2}, "agree little"),
        ({"inputs": ("Actions are one-hot vectors",)}, "one-hot"),
    ],
)
def test_each_reason_for_doubt_has_its_warning(given, text):
    (warning,) = make_trust(**given).warnings
    assert text in warning and f"Warning: {warning}" in make_trust(**given).describe()


@pytest.mark.parametrize(
    ("given", "one"),
    [
        ({"gain": Gain(0.5, 0.02), "gain_over_larger": Gain(0.2, 0.02), "mean_length": 9.0}, False),
        ({"gain": Gain(0.5, 0.02), "gain_over_larger": Gain(0.01, 0.02), "mean_length": 9.0}, True),
        ({"gain": Gain(0.5, 0.02), "mean_length": 1.2}, True),
        ({"gain": Gain(0.5, 0.02), "mean_length": 3.0, "gain_over_memoryless": Gain(0.2, 0.02)}, False),
        ({"gain": Gain(0.5, 0.02), "mean_length": 3.0, "gain_over_memoryless": Gain(0.01, 0.02)}, True),
    ],
)
def test_one_policy_is_possible_where_it_explains_as_much_or_options_last_a_step(given, one):
    assert make_trust(**given).may_be_one is one


@pytest.mark.parametrize(
    ("given", "fewest"),
    [
        ({"gain": Gain(0.5, 0.02), "agreement": 0.9}, 4),
        ({"gain": Gain(0.5, 0.02), "agreement": 0.2}, 2),
        ({"gain": Gain(0.01, 0.02), "agreement": 0.2}, 1),
        ({"num_options": 1, "agreement": 0.0}, 1),
        ({}, 4),
    ],
)
def test_fewer_options_are_possible_where_starts_disagree(given, fewest):
    assert make_trust(**given).fewest == fewest


def test_what_is_fine_gives_no_warning():
    gains = {"gain": Gain(0.5, 0.02), "gain_over_larger": Gain(0.2, 0.02), "gain_over_memoryless": Gain(0.3, 0.02)}
    fine = make_trust(**gains, mean_length=9.0, other_counts=(4, 5), agreement=0.9)
    assert fine.warnings == []
    assert Trust.from_dict(fine.to_dict()) == fine
    assert "+0.500 ± 0.020" in fine.describe() and "options that last: +0.300 ± 0.020" in fine.describe()
    older = {name: value for name, value in fine.to_dict().items() if name != "gain_over_memoryless"}
    assert Trust.from_dict(older).gain == fine.gain and Trust.from_dict(older).gain_over_memoryless is None
    alone = Trust(num_options=1, gain=Gain(0.0, 0.1), mean_length=1.0, agreement=0.0)
    assert alone.warnings == []  # one option needs no defence


def test_inputs_far_from_zero_and_one_hot_actions_are_noticed():
    data = make_continuous_episodes()
    assert input_warnings(data) == ()
    far = Trajectories(data.states + torch.tensor([0.0, 1e6, 0.0]), data.actions, data.lengths)
    (text,) = input_warnings(far)
    assert "entries 1 vary little" in text
    discrete = make_episodes(8)
    encoded = Trajectories(discrete.states, torch.nn.functional.one_hot(discrete.actions, 4).float(), discrete.lengths)
    (text,) = input_warnings(encoded)
    assert "one-hot" in text


def test_share_at_bounds():
    actions = torch.tensor([[[0.5, 1.0], [1.0, 0.0], [0.2, 0.3], [0.0, 0.0]]])
    data = Trajectories(torch.randn(1, 4, 2), actions, torch.tensor([3]))
    assert share_at_bounds(data, (GaussianFamily(high=1.0), GaussianFamily())) == pytest.approx(1 / 3)
    assert share_at_bounds(data, (GaussianFamily(), GaussianFamily())) == 0
    assert share_at_bounds(make_episodes(), "categorical") is None


def test_states_that_reveal_the_option_are_noticed():
    torch.manual_seed(0)
    states = torch.randn(40, 10, 3)
    lengths = torch.full((40,), 10)
    data = Trajectories(states, torch.zeros(40, 10, dtype=torch.long), lengths, 2)

    def revealed(options):
        return state_reveals(data, Segmentation(options, torch.ones(40, 10), lengths, torch.zeros(40), 2))

    assert revealed((states[..., 0] > 0).long()) > 0.8
    assert revealed(torch.randint(2, (40, 10))) < 0.1
    assert revealed(torch.zeros(40, 10, dtype=torch.long)) is None


@pytest.mark.parametrize("discrete", [True, False])
def test_options_drawn_anew_at_every_step_are_given_their_best_weights(discrete):
    torch.manual_seed(0)
    skills, data = make_skills(discrete=discrete), make_data(discrete, num_episodes=20)
    always = Termination(skills.state_dim, skills.num_options, initial_logit=60.0)  # ends at every step

    def score(log_weights):
        return Skills(skills.policy, always, log_weights).episode_log_likelihoods(data)

    found = memoryless_scores(skills, data, data)
    totals = torch.stack([score(one).sum() for one in torch.randn(300, skills.num_options).log_softmax(-1)])
    assert found.sum() > totals.max() - 1e-2
    torch.testing.assert_close(found.sum(), totals.max(), rtol=0.03, atol=0)


@pytest.mark.slow
def test_the_parts_of_a_distribution_with_heavy_tails_are_not_taken_for_behaviours():
    generator = np.random.default_rng(502)
    states = torch.as_tensor(generator.normal(size=(60, 45, 3)), dtype=torch.float32)
    law = torch.tensor([[1.0, -0.5], [0.0, 2.0], [0.3, 0.3]])
    actions = states @ law + 0.3 * torch.as_tensor(generator.laplace(size=(60, 45, 2)), dtype=torch.float32)
    with pytest.warns(DiscoveryWarning, match="drawn anew at every step|one policy suffices|last 1"):
        made = discover(Trajectories(states, actions), device="cpu", progress=False, hidden=())
    assert made.metadata["options_in_use"]["interval"][0] == 1


@pytest.mark.slow
def test_a_discovery_is_measured_and_nothing_to_find_is_said():
    torch.manual_seed(0)
    told = {"epochs": 30, "device": "cpu", "progress": False, "hidden": ()}
    truth = synthetic_options(3, 80, (20, 40), num_actions=4, seed=1).trajectories
    made = discover(truth, **told).metadata
    trust = Trust.from_dict(made["trust"])
    assert trust.num_options == 3 and trust.gain.real and trust.gain_over_larger.real
    assert len(trust.other_counts) == 2 and trust.agreement > 0.8
    low, high = made["options_in_use"]["interval"]
    assert low <= 3 <= high
    # the sign of one entry decides: one policy with a network explains that, and linear ones must be pieced together
    states = torch.randn(80, 30, 2)
    wavy = Trajectories(states, (torch.sin(4 * states[..., 0]) > 0).long(), num_actions=2)
    with pytest.warns(DiscoveryWarning):
        discover(wavy, **told)
