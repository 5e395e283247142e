"""Options with transitions in discover: they train, grow, are pruned, saved and resumed, and act."""

import numpy as np
import pytest
import torch
from pyro.infer import TraceGraph_ELBO
from support.episodes import make_continuous_episodes, make_episodes
from support.growth_checks import AlwaysPropose, assert_identical, copied_tensors, observe_and_step
from support.methods import QUICK
from torch.testing import assert_close

from pyro_options import Skills, discover
from pyro_options.data import synthetic_options
from pyro_options.discovery import build
from pyro_options.errors import InputError
from pyro_options.growth import EvidenceRule, Merge, Prune, SplitBirth, num_components, prune
from pyro_options.handlers import GrowthMessenger, collapse
from pyro_options.models import HDP, OptionHMM, StickyOptionHMM
from pyro_options.options import CategoricalPolicy, Termination, TransitionPath
from pyro_options.skills import to_skills
from pyro_options.skills.from_model import skills_at


def built(num_options=3, **config):
    torch.manual_seed(0)
    return build("options-sticky", make_episodes(12), initial_options=num_options, rule="evidence", **config)


def test_the_model_is_an_option_hmm_if_all_rows_are_equal():
    method, data = built(), make_episodes(12)
    plain = OptionHMM(method.model.policy, method.model.termination)
    log_weights = torch.log_softmax(torch.randn(3), -1)
    sticky = skills_at(method.model, log_weights.expand(4, 3)).log_likelihood(data)
    assert sticky == pytest.approx(skills_at(plain, log_weights).log_likelihood(data), rel=1e-5)


def test_growth_adds_rows_and_columns_and_every_parameter_gets_a_gradient():
    method, data = built(), make_episodes(12)
    growth = GrowthMessenger([method.model, method.guide], AlwaysPropose(2), SplitBirth(halve=True), site="actions")
    event = observe_and_step(growth, method.model, method.guide, data)
    assert event.num_born == 2 and method.guide.weights.row_log_a.shape == (5, 5)
    TraceGraph_ELBO().loss_and_grads(collapse(method.model, method.guide.collapses), method.guide, data)
    for parameter in (*method.model.parameters(), *method.guide.parameters()):
        assert parameter.grad is not None and parameter.grad.isfinite().all()


@pytest.mark.parametrize("removal", [Prune(tolerance=1e9), Merge(tolerance=1e9, steps=2)])
def test_removals_leave_weights_that_sum_to_what_they_did(removal):
    method, data = built(4), make_episodes(12)
    before = method.guide.weights.mean_log_weights().exp().sum(-1)[0]
    growth = GrowthMessenger(
        [method.model, method.guide], EvidenceRule(min_gain=1e9), removals=[removal], site="actions"
    )
    observe_and_step(growth, method.model, method.guide, data)
    assert num_components([method.model, method.guide]) < 4
    assert_close(method.guide.weights.mean_log_weights().exp().sum(-1)[0], before, rtol=0, atol=2e-3)


def test_a_refused_birth_is_undone_bit_for_bit():
    method, data = built(), make_episodes(12)
    growth = GrowthMessenger([method.model, method.guide], AlwaysPropose(keep=False), SplitBirth(), site="actions")
    before = copied_tensors(method.model, method.guide)
    observe_and_step(growth, method.model, method.guide, data)
    assert_identical(before, copied_tensors(method.model, method.guide))


@pytest.mark.parametrize("data", [make_episodes(16), make_continuous_episodes(16)], ids=["discrete", "continuous"])
def test_discover_saves_and_loads(data, tmp_path):
    skills = discover(data, model="sticky-options", stickiness=1.0, initial_options=3, check_every=2, **QUICK)
    assert skills.log_rows.shape == (skills.num_options, skills.num_options)
    skills.save(tmp_path / "skills.safetensors")
    again = Skills.load(tmp_path / "skills.safetensors")
    assert torch.equal(skills.log_rows, again.log_rows)
    assert skills.log_likelihood(data) == again.log_likelihood(data)
    assert again.metadata["options_in_use"]["mode"] >= 1


def test_a_resumed_training_is_the_same(tmp_path):
    data = make_episodes(16)
    settings = {"method": "options-sticky", "rule": "usage", "check_every": 2, "initial_options": 2} | QUICK
    whole = discover(data, **settings | {"epochs": 4})
    file = tmp_path / "training"
    discover(data, checkpoint=file, **settings | {"epochs": 2})
    resumed = discover(data, checkpoint=file, resume=True, **settings | {"epochs": 4})
    assert resumed.num_options == whole.num_options > 2
    assert torch.equal(resumed.log_rows, whole.log_rows)


def test_a_fixed_number_of_options_and_wrong_settings():
    assert discover(make_episodes(12), "options-sticky", num_options=2, **QUICK).num_options == 2
    for wrong in ({"prior": "uniform", "num_options": 2}, {"discount": 0.2}, {"point": True}):
        with pytest.raises(InputError, match="prior of the model 'sticky-options'"):
            discover(make_episodes(12), model="sticky-options", **wrong, **QUICK)
    with pytest.raises(InputError, match="guide of the model 'sticky-options'"):
        discover(make_episodes(12), model="sticky-options", guide="paper", **QUICK)
    with pytest.raises(InputError, match="no termination_cost with sticky options"):
        discover(make_episodes(12), model="sticky-options", termination_cost=1.0, **QUICK)
    with pytest.raises(InputError, match="a row of transitions for each option"):
        StickyOptionHMM(CategoricalPolicy(2, 2, 2), Termination(2, 2), HDP(num_rows=3))


def sticky_skills():
    method = built()
    with torch.no_grad():
        for parameter in method.guide.parameters():
            parameter.add_(torch.randn_like(parameter))
    return to_skills(method.model, method.guide)


def test_some_of_the_skills_keep_their_relative_transitions():
    skills = sticky_skills()
    few = skills.only([2, 0])
    assert_close(few.log_rows.exp().sum(-1), skills.log_rows.exp().sum(-1)[[2, 0]])
    ratio = few.log_rows[0, 0] - few.log_rows[0, 1]
    assert_close(ratio, skills.log_rows[2, 2] - skills.log_rows[2, 0])
    same = skills.only([1, 2, 0])
    assert skills.log_likelihood(make_episodes(8)) == pytest.approx(same.log_likelihood(make_episodes(8)), rel=1e-5)
    assert skills.to("cpu").log_rows is not None


def test_the_next_option_depends_on_the_last():
    skills, states = sticky_skills(), np.random.default_rng(0).normal(size=(4, 3))
    rows = torch.softmax(skills.log_rows.double(), -1).numpy()
    np.testing.assert_allclose(skills.choice_probabilities(states[0], 1), rows[1])
    np.testing.assert_allclose(skills.choice_probabilities(states, np.array([0, 1, 2, 0])), rows[[0, 1, 2, 0]])
    np.testing.assert_allclose(skills.choice_probabilities(states)[2], skills.choice_probabilities(states[0]))


def test_imitation_filters_with_the_rows():
    """The belief after each step is that of the forward recursion with normalized rows."""
    skills = sticky_skills()
    data = make_episodes(4)[:1]
    n = int(data.lengths[0])
    imitation, belief = skills.imitation(), None
    for t in range(n):
        belief = imitation.update(data.states[0, t].numpy(), int(data.actions[0, t]), belief)
    weights = torch.log_softmax(torch.cat([skills.log_weights.unsqueeze(0), skills.log_rows]).double(), -1)
    states = data.states[:, :n].double()
    path = TransitionPath(weights, skills.termination.double()(states))
    emission = skills.policy.double()(states).component_log_prob(data.actions[:, :n])
    assert_close(torch.from_numpy(belief), path.posterior(emission).options[0, -1], rtol=0, atol=1e-5)


def test_demonstrations_of_options_in_a_cycle():
    cycle = torch.eye(3).roll(1, 1)
    truth = synthetic_options(3, 20, lengths=(30, 30), mean_duration=4.0, seed=1, transitions=cycle)
    ended = truth.switches[:, 1:]
    assert (((truth.options[:, :-1] + 1) % 3)[ended] == truth.options[:, 1:][ended]).all() and ended.any()
    assert isinstance(truth.path, TransitionPath) and truth.best_options().shape == truth.options.shape
    with pytest.raises(InputError, match=r"transitions of shape \(3, 3\)"):
        synthetic_options(3, 4, transitions=torch.eye(2))


def test_pruning_a_model_removes_its_rows():
    method = built(4)
    prune([method.model, method.guide], [1])
    assert method.guide.weights.row_log_b.shape == (3, 3) and method.model.num_options == 3
