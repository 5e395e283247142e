"""Hard options: the objective against brute force, moves that pay, recovery, and as a start of other methods."""

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from pyro_options.data import Trajectories, synthetic_options
from pyro_options.discovery import build, discover, trainings
from pyro_options.discovery.hard_births import give_birth, stretch_costs, takeover, with_switches
from pyro_options.discovery.hard_paths import Demonstrated, HardModel
from pyro_options.discovery.hard_search import bic_price, hard_options, try_removal
from pyro_options.envs import final_action_probabilities, message_demonstrations, message_success
from pyro_options.options import CategoricalPolicy, GaussianPolicy
from pyro_options.skills import label_scores


def known(kind="discrete", episodes=60, seed=0):
    return synthetic_options(3, episodes, (10, 30), 4, num_actions=4 if kind == "discrete" else None, seed=seed)


def hard_model(num_options=3, episodes=4, price=1.0, rate=0.2):
    torch.manual_seed(1)
    data = known(episodes=episodes).trajectories.cut(5)
    policy = CategoricalPolicy(data.state_dim, num_options, data.num_actions).double()
    return HardModel(policy, Demonstrated.some(data), price, rate)


def brute_force(model, emission):
    """The best log-probability of each episode over all option sequences, terminations summed out."""
    K, best = emission.shape[-1], []
    for row, mask in zip(emission, model.steps.mask):
        steps, found = int(mask.sum()), -math.inf
        for options in itertools.product(range(K), repeat=steps):
            total = -math.log(K) + float(row[0, options[0]])
            for t in range(1, steps):
                switch = model.rate / K
                stay = 1 - model.rate + switch if options[t] == options[t - 1] else switch
                total += math.log(stay) + float(row[t, options[t]])
            found = max(found, total)
        best.append(found)
    return best


def test_the_objective_is_minus_the_best_log_probability_plus_the_prices():
    model = hard_model()
    paths = model.best()
    assert paths.log_prob == pytest.approx(sum(brute_force(model, model.emission())))
    assert model.cost(paths) == pytest.approx(-paths.log_prob + 2 * model.price)
    chosen = model.emission().gather(-1, paths.options.unsqueeze(-1)).squeeze(-1)
    switches = int(model.switches(paths).sum())
    steps = int(model.steps.mask[:, 1:].sum())
    stay = math.log(1 - model.rate + model.rate / 3)
    spent = len(paths.options) * math.log(3) + switches * model.switch_price(3) - steps * stay
    assert -paths.log_prob == pytest.approx(float(-chosen.sum()) + spent)


def test_a_takeover_by_another_option_gains_what_brute_force_says():
    model = hard_model(num_options=1)
    paths, candidates = model.best(), hard_model(num_options=2).emission()
    taken, gain = takeover(model, with_switches(model, paths), candidates)
    for c in range(2):
        both = torch.stack([model.emission()[..., 0], candidates[..., c]], -1)
        before = [math.log(0.5) + float(row.sum()) for row in model.emission()[..., 0]]
        steps = model.steps.mask.sum(1) - 1
        stay = math.log(1 - model.rate + model.rate / 2)
        expected = sum(brute_force(model, both)) - sum(before) - float(steps.sum()) * stay
        assert float(gain[c]) == pytest.approx(expected)
        assert bool(taken[c].any()) == (float(gain[c]) > 1e-12)


def test_costs_of_stretches():
    costs = stretch_costs(torch.tensor([[1.0, 2.0, 3.0, 6.0]]), 2)
    assert_close(costs, torch.tensor([[1.5, 2.5, 4.5, 3.0]]))


def test_births_must_pay_their_price():
    data = known().trajectories
    torch.manual_seed(0)
    policy = CategoricalPolicy(data.state_dim, 1, data.num_actions).double()
    model = HardModel(policy, Demonstrated.some(data), math.inf)
    paths = model.alternate(1)
    assert give_birth(model, paths, 8, 10) == 0 and model.num_options == 1
    model.price = 0.0
    assert give_birth(model, paths, 8, 2) == 2 and model.num_options == 3
    assert model.alternate().log_prob > paths.log_prob


def test_removals_of_useless_options_lower_the_objective_and_others_are_refused():
    truth = known()
    model, paths = hard_options(CategoricalPolicy(4, 1, 4), truth.trajectories)
    assert model.num_options == 3 and try_removal(model, paths) is None
    more = model.copy()
    more.append(model.policy, [0])  # a copy explains nothing that the original does not
    found = try_removal(more, more.best())
    assert found is not None and found[0].num_options == 3
    assert found[0].cost(found[1]) < more.cost(more.best())


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_known_options_are_found(kind):
    truth = known(kind)
    skills = discover(truth.trajectories, "options-hard", progress=False, device="cpu")
    found = skills.segment(truth.trajectories)
    assert skills.num_options == 3 and skills.metadata["updates"] == 0
    assert label_scores(found.options, truth.options, truth.trajectories.mask).accuracy > 0.95


def test_messages_are_found():
    skills = discover(message_demonstrations(5, 200), "options-hard", progress=False, device="cpu")
    assert skills.num_options == 5
    assert message_success(final_action_probabilities(skills.policy))[0]
    assert skills.metadata["log_likelihood"]["train"] == pytest.approx(-math.log(5) / 5, abs=0.02)


def test_random_actions_are_one_option():
    torch.manual_seed(0)
    data = Trajectories(torch.randn(40, 25, 3), torch.randint(4, (40, 25)), num_actions=4)
    assert discover(data, "options-hard", progress=False, device="cpu").num_options == 1


def test_the_price_is_that_of_bic():
    assert bic_price(CategoricalPolicy(4, 7, 3), 1000) == pytest.approx(0.5 * 15 * math.log(1000))
    assert bic_price(GaussianPolicy(4, 7, 2), 1000) == pytest.approx(0.5 * 12 * math.log(1000))


@pytest.mark.parametrize("num_options", [2, 5])
def test_a_given_number_of_options_is_reached(num_options):
    data = known(episodes=30).trajectories
    skills = discover(data, "options-hard", num_options=num_options, progress=False, device="cpu")
    assert skills.num_options == num_options
    assert float(skills.log_weights.exp().sum()) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("guide", ["exact", "paper", "relaxed"])
def test_other_guides_start_from_it(guide):
    data = known(episodes=30).trajectories
    torch.manual_seed(0)
    started = build(None, data, guide=guide, start="hard")
    assert started.model.num_options == started.guide.weights.num_components == 3
    weights = started.guide.weights.mean_log_weights().detach().exp()
    assert 0.9 < float(weights.sum()) < 1 and float(weights.min()) > 0.1
    skills = discover(data, guide=guide, start="hard", epochs=2, progress=False, device="cpu", trust=False)
    assert skills.metadata["method"]["start"] == "hard"


def test_besides_several_restarts_there_is_a_training_from_it(monkeypatch):
    starts = []
    assemble = trainings.assemble
    monkeypatch.setattr(
        trainings, "assemble", lambda data, config, train: starts.append(config.start) or assemble(data, config, train)
    )
    given = {"start": "hard", "epochs": 1, "progress": False, "device": "cpu", "trust": False}
    discover(known(episodes=20).trajectories, guide="exact", restarts=3, **given)
    assert starts == [None, None, None, "hard"]
    starts.clear()
    discover(known(episodes=20).trajectories, guide="exact", restarts=1, **given)
    assert starts == ["hard"]


@pytest.mark.parametrize("better", [False, True])
def test_a_hard_start_that_is_not_better_changes_nothing(better, monkeypatch):
    data = known(episodes=30).trajectories
    monkeypatch.setattr(trainings, "clearly_better", lambda *trainers: better)
    given = {"guide": "exact", "restarts": 2, "epochs": 5, "progress": False, "device": "cpu", "trust": False}
    plain, hard = discover(data, **given), discover(data, start="hard", **given)
    same = plain.num_options == hard.num_options and torch.equal(plain.policy.heads.weight, hard.policy.heads.weight)
    assert same != better


def test_models_with_other_parts_start_from_it():
    data = known(episodes=30).trajectories
    for given in ({"method": "compile-np"}, {"method": "options-sticky"}, {"method": "ddo", "num_options": 4}):
        torch.manual_seed(0)
        made = build(given.pop("method"), data, start="hard", **given)
        assert made.model.num_options == given.get("num_options", 3) == made.guide.weights.mean_log_weights().shape[-1]


def test_hidden_networks_and_packed_states():
    data = known(episodes=30).trajectories
    deep = discover(data, "options-hard", hidden=(8,), progress=False, device="cpu")
    assert deep.num_options >= 1 and deep.metadata["method"]["hidden"] == [8]


def test_long_demonstrations_are_sampled(monkeypatch):
    from pyro_options.discovery import hard_paths

    monkeypatch.setattr(hard_paths, "MOST_STEPS", 200)
    data = known(episodes=40).trajectories
    some = Demonstrated.some(data)
    assert 150 < len(some.states) <= 200 and int(some.mask.sum()) == len(some.states)
