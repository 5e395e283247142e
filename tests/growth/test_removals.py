"""Pruning and merging: useless components are removed, useful ones are kept, refused removals change nothing."""

import math
from dataclasses import replace

import pytest
import torch
from pyro import poutine
from support.episodes import make_episodes, two_kinds_of_episodes
from support.growth_checks import assert_identical, copied_tensors, make_scene, observe_and_step
from support.option_models import make_model, single_action_options
from torch.testing import assert_close

from pyro_options.data import Trajectories
from pyro_options.distributions import logit_sticks
from pyro_options.growth import Merge, Prune, Usage, Verdict, growables, reweight
from pyro_options.growth.removals import _Outlook
from pyro_options.growth.scene import ABSENT, Baseline
from pyro_options.guides import Exact, GrowableGEM, PointGEM, Relaxed, weights_guide
from pyro_options.handlers import GrowthMessenger, collapse
from pyro_options.infer import TrainConfig, Trainer
from pyro_options.options import PathEncoder


def test_one_step_of_em_gives_the_expected_counts_of_the_posterior():
    """One step of expectation maximization, against the switches that forward-backward counts."""
    episodes, model = make_episodes(6), make_model()
    guide = Exact(weights_guide("gem", 3))
    weights = torch.log_softmax(torch.tensor([0.3, -1.0, 0.5]), 0)
    given = make_scene(model, guide, episodes)
    with torch.no_grad():
        emission = model.policy(episodes.states, mask=episodes.mask).component_log_prob(episodes.actions)
    expected = torch.zeros(3)
    torch.manual_seed(0)
    for _ in range(4000):
        path = model.path(weights, episodes).sample_posterior(emission)
        drawn = path[..., :1] * path[..., 1:] * episodes.mask.unsqueeze(-1)
        expected += drawn.sum((0, 1))
    after = given.likelihood(episodes).refit(weights, steps=1)
    assert_close(after.exp(), expected / expected.sum(), atol=0.01, rtol=0)


def test_likelihoods_by_weights_and_by_sticks_agree():
    episodes, model = make_episodes(20), make_model()
    given = make_scene(model, Exact(weights_guide("gem", 3)), episodes)
    weights = torch.log_softmax(torch.tensor([0.3, -1.0, 0.5]), 0)

    def by_sticks(rows, log_weights):  # a model of its own, as users write them
        return poutine.condition(collapse(model), {"sticks": logit_sticks(log_weights)})(rows)

    other = replace(given, model=by_sticks)
    direct, sticks = given.likelihood(episodes), other.likelihood(episodes)
    assert_close(direct(weights), sticks(weights), atol=1e-4, rtol=0)
    assert_close(direct.refit(weights), sticks.refit(weights), atol=1e-3, rtol=0)


def test_refitting_weights_raises_the_likelihood_and_skips_absent_components():
    episodes, model = make_episodes(20), make_model()
    given = make_scene(model, Exact(weights_guide("gem", 3)), episodes)
    likelihood, weights = given.likelihood(episodes), torch.tensor([0.0, -1.0, ABSENT])
    likelihoods = []
    for steps in range(4):
        refitted = likelihood.refit(weights, steps)
        assert refitted[2] == ABSENT and float(refitted.exp().sum()) == pytest.approx(1)
        likelihoods.append(float(likelihood(refitted).sum()))
    assert likelihoods == sorted(likelihoods) and likelihoods[-1] > likelihoods[0]


def test_the_batch_size_of_a_likelihood_does_not_change_it():
    episodes, model = make_episodes(20), make_model()
    guide = Exact(weights_guide("gem", 3))
    whole, parts = (make_scene(model, guide, episodes, batch_size=size).likelihood(episodes) for size in (100, 3))
    weights = guide.weights.mean_log_weights().detach()
    assert_close(whole(weights), parts(weights))
    assert_close(whole.refit(weights), parts.refit(weights))


@pytest.mark.parametrize("cost", [0.0, 2.0])
def test_a_cached_likelihood_equals_that_of_the_model(cost):
    episodes, model = make_episodes(20), make_model()
    model.termination_cost = cost
    given = make_scene(model, Exact(weights_guide("gem", 3)), episodes)
    weights = torch.log_softmax(torch.tensor([0.3, -1.0, 0.5]), 0)
    fn, value = given.observed(episodes, weights)
    assert_close(given.likelihood(episodes)(weights), fn.log_prob(value).detach())


@pytest.mark.parametrize("removal", [Prune(), Merge(steps=5)])
def test_a_duplicate_option_is_removed_and_its_weight_kept(removal):
    model, guide = single_action_options(0, 1, 1)
    tried = removal(make_scene(model, guide, two_kinds_of_episodes()))
    assert [r.components[0] in (1, 2) for r in tried if r.verdict.accepted] == [True]
    assert model.num_options == guide.weights.num_components == 2
    weights = guide.weights.mean_log_weights().exp().detach()
    assert_close(weights / weights.sum(), torch.tensor([0.5, 0.5]), atol=0.05, rtol=0)


@pytest.mark.parametrize("removal", [Prune(), Merge(steps=5)])
def test_an_unused_option_is_removed(removal):
    model, guide = single_action_options(0, 1, 3)
    tried = removal(make_scene(model, guide, two_kinds_of_episodes()))
    assert [r.components[0] for r in tried if r.verdict.accepted] == [2]
    assert model.num_options == 2


@pytest.mark.parametrize("removal", [Prune(), Merge(steps=5)])
def test_a_refused_removal_leaves_everything_bit_for_bit(removal):
    model, guide = single_action_options(0, 1)
    episodes = two_kinds_of_episodes()
    trainer = Trainer(model, guide, episodes, TrainConfig(epochs=2, progress=False))
    trainer.run()
    before = copied_tensors(model, guide, optimizer=trainer.optimizer)
    tried = removal(make_scene(model, guide, episodes), trainer.optimizer)
    assert tried and not any(r.verdict.accepted for r in tried)
    assert all(r.verdict.gain < -1 for r in tried)
    assert_identical(before, copied_tensors(model, guide, optimizer=trainer.optimizer))
    trainer.run(1)


def test_merging_finds_what_pruning_cannot():
    """Two options that each say half of what one could say: neither can go, but one can take over."""
    torch.manual_seed(0)
    episodes = Trajectories(torch.zeros(200, 4, 3), torch.randint(0, 2, (200, 4)), num_actions=4)
    for removal, left in ((Prune(), 2), (Merge(steps=200), 1)):
        model, guide = single_action_options(0, 1, termination=3.0)
        removal(make_scene(model, guide, episodes))
        assert model.num_options == left


def test_the_fit_of_a_hopeless_merge_is_left_unfinished():
    """What is lacking at some of 100 steps says whether it would be made up in the others; once is not enough."""
    data, taken = two_kinds_of_episodes(), []
    falling, rising_once, near = [50, 30, 22, 16, 12, 9, 5, 2, -1], [50, 55, 30, 20, 11, 8, 4, 2, 1], [2.9] * 9
    for lacking in ([50, 49.9, 49.8], falling, rising_once, near, [50, 30, 20, 14, 13.9, 13.8]):
        model, guide = single_action_options(0, 1)
        weights, values, asked = guide.weights.mean_log_weights().detach(), iter(lacking), []
        outlook = _Outlook(lambda values=values: next(values), 100)
        make_scene(model, guide, data).fit(
            [0],
            data,
            weights,
            100,
            0.01,
            lambda step, outlook=outlook, asked=asked: asked.append(step) or outlook(step),
        )
        taken.append(len(asked))
    assert taken == [31, 100, 100, 100, 50]


def test_pruning_removes_several_options_in_one_check():
    model, guide = single_action_options(0, 3, 1, 1, 2)
    tried = Prune()(make_scene(model, guide, two_kinds_of_episodes()))
    assert sum(r.verdict.accepted for r in tried) == 3 and model.num_options == 2
    said = model.policy.heads.bias.argmax(-1).tolist()
    assert sorted(said) == [0, 1]


@pytest.mark.parametrize("removal", [Prune(), Merge()])
def test_a_single_option_is_never_removed(removal):
    model, guide = single_action_options(0)
    assert removal(make_scene(model, guide, two_kinds_of_episodes())) == []
    assert model.num_options == 1


def test_cost_of_replacement_by_hand():
    explained = torch.tensor([[-1.0, -3.0], [-2.0, -0.5]])
    usage = Usage(torch.ones(2) / 2, torch.ones(2) / 2, 10, explained)
    assert usage.replacement_cost().tolist() == [[torch.inf, 2.0], [1.5, torch.inf]]


@pytest.mark.parametrize("kind", [GrowableGEM, PointGEM])
def test_reweighting_sets_relative_weights_and_keeps_the_unassigned_mass(kind):
    weights = kind(4)
    before = float(weights.mean_log_weights().exp().sum().detach())
    wanted = torch.tensor([0.1, 0.2, 0.65, 0.05])
    reweight([weights], wanted.log())
    after = weights.mean_log_weights().exp().detach()
    assert float(after.sum()) == pytest.approx(before, abs=1e-4)
    assert_close(after / after.sum(), wanted, atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match="Expected 4 weights but got 3"):
        reweight([weights], wanted[:3])


def test_blending_is_the_weighted_average():
    model, _ = single_action_options(0, 1)
    guide = Relaxed(weights_guide("gem", 2), PathEncoder(7, 2))
    weights = guide.weights.mean_log_weights().exp().detach()
    for layer in growables([model, guide]):
        layer.blend(0, 1, 0.75)
    assert_close(model.policy.heads.bias[0], torch.tensor([4.5, 1.5, 0.0, 0.0]))
    blended = guide.weights.mean_log_weights().exp().detach()
    assert_close(blended, torch.tensor([weights.sum(), 0.0]), atol=1e-5, rtol=0)


def test_verdicts():
    rows = torch.zeros(4)
    assert Verdict.on_gain(rows, rows + 0.1, least=0.3).accepted
    assert not Verdict.on_gain(rows, rows + 0.1, least=0.5).accepted
    assert Verdict.on_loss(rows, rows - 0.1, most=0.5).accepted
    assert not Verdict.on_loss(rows, rows - 0.1, most=0.3).accepted


def test_a_loss_of_one_row_is_not_excused_by_its_standard_error():
    """Mean and standard error are equal if one row alone loses, whatever it loses."""
    rows = torch.zeros(20, dtype=torch.float64)
    after = rows.clone()
    after[3] = -54.0
    verdict = Verdict.on_loss(rows, after, most=3.0)
    assert not verdict.accepted
    assert verdict.gain == -54 and abs(verdict.error - 54) < 0.1


def test_a_gain_of_few_rows_counts():
    rows = torch.zeros(200, dtype=torch.float64)
    after = rows.clone()
    after[:3] = 10.0
    assert Verdict.on_gain(rows, after, least=5.0).accepted


def test_checks_without_effect_become_rarer():
    model, guide = single_action_options(0, 1)
    episodes = two_kinds_of_episodes()
    growth = GrowthMessenger([model, guide], removals=[Prune()], every=10, patience=4, max_components=2, site="actions")
    checks = []
    for time in range(1, 151):
        if growth.due(time):
            observe_and_step(growth, model, guide, episodes, time=time)
            checks.append(time)
    assert checks == [10, 30, 70, 110, 150]


def test_training_ends_without_an_untrained_option():
    """The last check only removes; with a run of given length every check may give birth."""
    torch.manual_seed(0)
    model, guide = single_action_options(0, 1, 3)
    growth = GrowthMessenger([model, guide], removals=[Prune()], every=4, max_components=9, site="actions")
    config = TrainConfig(epochs=3, batch_size=30, progress=False)
    trainer = Trainer(model, guide, two_kinds_of_episodes(), config, growth)
    trainer.run()
    assert model.num_options == 2 and trainer.history.removal_epochs == [2]
    assert all(event.num_born == 0 for event in growth.history)


def test_a_component_that_no_held_out_row_uses_is_kept_if_rows_trained_on_need_it():
    """A skill of 6 in 60 episodes: none of the judging episodes has it."""
    torch.manual_seed(0)
    model, guide = single_action_options(0, 1, 2)
    actions = torch.tensor([[0] * 5, [1] * 5] * 27 + [[2] * 5] * 6)
    data = Trajectories(torch.randn(60, 5, 3), actions, num_actions=4)
    judge = data[:20]
    given = make_scene(model, guide, data, held_out=judge)
    moves = Prune(candidates=3)(given)
    assert not any(move.verdict.accepted for move in moves)


def test_losses_of_several_checks_do_not_add_up():
    """What earlier removals cost the held-out rows, and training did not make up for, counts."""

    def pruned(baseline):
        torch.manual_seed(0)
        model, guide = single_action_options(0, 1, 2)  # the third has no data
        given = make_scene(model, guide, two_kinds_of_episodes(), held_out=two_kinds_of_episodes())
        return [move.verdict for move in Prune()(replace(given, baseline=baseline)) if move.verdict.accepted]

    baseline = Baseline()
    accepted = pruned(baseline)
    now = baseline.after - accepted[-1].gain
    assert accepted and math.isfinite(now) and baseline.debt == max(0.0, -accepted[-1].gain)
    assert not pruned(Baseline(debt=10, after=now))
    assert pruned(Baseline(debt=10, after=now - 10))  # training has gained 10 nats since
    assert not pruned(Baseline(debt=10, after=now + 50))
    assert pruned(Baseline(debt=0, after=now + 50))  # training, not a removal, has cost 50 nats: too many components?


def test_the_size_of_a_component_counts_what_the_likelihood_depends_on():
    model = make_model()
    guide = Relaxed(weights_guide("gem", 3), PathEncoder(7, 3, 4, (4,)))
    given = make_scene(model, Exact(guide.weights), make_episodes(6))
    given = replace(given, modules=[model, guide])
    heads = [model.policy.heads, model.termination.heads]
    expected = sum((layer.weight.numel() + layer.bias.numel()) // 3 for layer in heads)
    assert given.component_size() == expected
