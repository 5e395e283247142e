"""The trial rule: births are trained first and judged at the next check."""

import pytest
import torch
from support.episodes import make_episodes, two_kinds_of_episodes
from support.growth_checks import make_scene, observe_and_step
from support.option_models import single_action_options
from torch.testing import assert_close

from pyro_options.data import Trajectories
from pyro_options.discovery import MethodConfig, build
from pyro_options.growth import Never, Newborns, Prune, SplitBirth, TrialRule, Usage, grow
from pyro_options.handlers import GrowthMessenger
from pyro_options.infer import TrainConfig, Trainer


@pytest.mark.parametrize(("rate", "components", "births"), [(1.0, 1, 1), (1.0, 4, 4), (0.5, 4, 2), (0.1, 3, 1)])
def test_the_number_of_births_is_a_share_of_k(rate, components, births):
    even = torch.ones(components) / components
    assert TrialRule(rate).propose(Usage(even, even, 10)) == births
    with pytest.raises(ValueError, match="Expected rate > 0"):
        TrialRule(0.0)


def test_splitting_in_halves_without_noise_keeps_weights_and_likelihood():
    episodes = two_kinds_of_episodes()
    model, guide = single_action_options(0, 1, 2)
    before = make_scene(model, guide, episodes)
    likelihood = before.likelihood(episodes)(torch.log_softmax(before.log_weights, -1))
    order = before.usage.likelihood.argsort(descending=True)[:2]
    grow([model, guide], 2)
    given = Newborns(
        before.modules, before.usage, before.site, before.log_weights, before.model, before.data, index=range(3, 5)
    )
    SplitBirth(noise=0.0, halve=True)(given)
    weights = guide.weights.mean_log_weights().detach()
    assert_close(weights[order], weights[3:], atol=1e-3, rtol=0)
    after = make_scene(model, guide, episodes).likelihood(episodes)(torch.log_softmax(weights, -1))
    assert_close(after, likelihood, atol=2e-3, rtol=0)


def test_usage_without_some_components_is_normalized():
    usage = Usage(torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.2, 0.6]), 10, torch.arange(9.0).view(3, 3))
    left = usage.without([1])
    assert_close(left.likelihood, torch.tensor([5.0, 2.0]) / 7)
    assert_close(left.posterior, torch.tensor([0.25, 0.75]))
    assert left.explained.tolist() == [[0.0, 2.0], [6.0, 8.0]]


def test_after_births_that_were_all_pruned_growth_waits():
    """A birth that is pruned whole is followed by a wait, not by the next birth."""
    model, guide = single_action_options(0, 1)
    episodes = two_kinds_of_episodes()
    growth = GrowthMessenger(
        [model, guide], TrialRule(), SplitBirth(0.0, halve=True), [Prune()], every=1, patience=4, site="actions"
    )
    sizes = []
    for time in range(1, 8):
        if growth.due(time):
            observe_and_step(growth, model, guide, episodes, time=time)
        sizes.append(model.num_options)
    assert sizes == [4, 2, 2, 4, 2, 2, 4]


def test_removal_and_birth_in_one_check():
    """Of two newborns one stays: the next are born at once, from what is left."""
    model, guide = single_action_options(0, 3, 1)
    episodes = two_kinds_of_episodes()
    growth = GrowthMessenger([model, guide], TrialRule(), SplitBirth(halve=True), [Prune()], every=1, site="actions")
    event = observe_and_step(growth, model, guide, episodes)
    assert event.num_removed == 1 and event.num_born == 2 and model.num_options == 4
    observe_and_step(growth, model, guide, episodes)  # the next check runs with what is there now


@pytest.mark.parametrize(("actions", "left"), [((0, 1), 2), ((0, 0), 1)], ids=["needed", "twice"])
def test_what_only_the_training_data_need_is_kept(actions, left):
    """A rare option may be in no held-out episode; a copy of another one is removed."""
    model, guide = single_action_options(*actions)
    zeros = Trajectories(torch.randn(20, 5, 3), torch.zeros(20, 5, dtype=torch.long), num_actions=4)
    growth = GrowthMessenger([model, guide], Never(), removals=[Prune()], every=1, site="actions")
    Trainer(model, guide, two_kinds_of_episodes(), TrainConfig(epochs=1, progress=False), growth, held_out=zeros).run()
    assert model.num_options == left


def test_several_initial_options_have_even_weights_under_the_trial_rule():
    data = make_episodes(16)
    guides = [build("options-exact", data, rule=rule, initial_options=4).guide for rule in ("trial", "usage")]
    even, sticks = (guide.weights.mean_log_weights().exp() for guide in guides)
    assert_close(even, even[:1].expand(4), atol=1e-4, rtol=0)
    assert_close(sticks, torch.tensor([1 / 2, 1 / 4, 1 / 8, 1 / 16]), atol=1e-4, rtol=0)


@pytest.mark.parametrize("config", [{"alpha_prior": (2.0, 1.0)}, {"discount": 0.3}])
def test_priors_of_the_weights_can_be_chosen_by_name(config):
    data = make_episodes(16)
    method = build("options-exact", data, hidden=(8,), rule="trial", check_every=2, patience=1, **config)
    trainer = Trainer(method.model, method.guide, data, TrainConfig(batch_size=8, progress=False), method.growth)
    trainer.run(3)
    assert all(torch.tensor(trainer.history.objective).isfinite()) and trainer.history.growth_epochs
    trainer.step(data)
    for parameter in trainer.parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all()
    with pytest.raises(ValueError, match="Leave K open"):
        MethodConfig(num_options=3, **config)
