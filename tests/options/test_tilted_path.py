"""Paths with a termination cost against enumeration, and the effect of the cost on options."""

import pyro
import pytest
import torch
from pyro import poutine
from support.episodes import make_episodes
from support.option_models import make_model
from support.paths import enumerate_paths, mask_of, random_episodes
from torch.testing import assert_close

from pyro_options.data import synthetic_options
from pyro_options.discovery import build
from pyro_options.handlers import collapse
from pyro_options.infer import TrainConfig, Trainer, set_seed
from pyro_options.models import OptionHMM
from pyro_options.options import OptionPath, TiltedPath
from pyro_options.skills import Skills


def tilted(num_steps, num_options, cost):
    """One episode, its enumeration, and the joint with every termination after the first paid for."""
    log_weights, logits, emission = random_episodes(num_steps, num_options, leftover=0.1)
    every = enumerate_paths(log_weights, logits, emission)
    paid = torch.exp(-cost * every.terminations[:, 1:].sum(-1))
    return TiltedPath(log_weights, logits, cost=cost), emission, every, every.joint * paid, every.prior * paid


@pytest.mark.parametrize("cost", [0.0, 0.7, 5.0])
@pytest.mark.parametrize("num_steps, num_options", [(1, 3), (4, 1), (4, 2), (3, 3)])
def test_everything_equals_enumeration(num_steps, num_options, cost):
    path, emission, every, joint, prior = tilted(num_steps, num_options, cost)
    assert_close(path.log_marginal(emission), joint.sum().log())
    possible = prior > 0
    assert_close(path.log_prob(every.values(num_options))[possible], prior[possible].log())
    posterior, weight = path.posterior(emission), joint / joint.sum()
    for t in range(num_steps):
        assert_close(posterior.switches[t], weight[every.terminations[:, t] == 1].sum())
        for k in range(num_options):
            assert_close(posterior.options[t, k], weight[every.options[:, t] == k].sum())
    options, log_prob = path.viterbi(emission)
    same = (every.options == options).all(-1)
    assert_close(log_prob, joint[same].sum().log())
    assert_close(log_prob, max(joint[(every.options == h).all(-1)].sum() for h in every.options.unique(dim=0)).log())


def test_the_gradient_is_right_in_every_input():
    inputs = [x.requires_grad_() for x in random_episodes(4, 3, batch=(2,))]
    mask = mask_of([4, 2], 4)

    def marginal(log_weights, logits, emission):
        return TiltedPath(log_weights, logits, mask, 1.3).log_marginal(emission)

    assert torch.autograd.gradcheck(marginal, inputs)


def test_padding_costs_nothing_and_garbage_there_changes_nothing():
    log_weights, logits, emission = random_episodes(5, 3, batch=(2,))
    mask = mask_of([5, 3], 5)
    clean = TiltedPath(log_weights, logits, mask, 2.0).log_marginal(emission)
    alone = TiltedPath(log_weights, logits[1, :3], cost=2.0).log_marginal(emission[1, :3])
    assert_close(clean[1], alone)
    dirty = logits.clone()
    dirty[1, 3:] = float("nan")
    dirty.requires_grad_()
    again = TiltedPath(log_weights, dirty, mask, 2.0).log_marginal(emission)
    assert_close(again, clean)
    again.sum().backward()
    assert dirty.grad.isfinite().all()
    path = TiltedPath(log_weights, logits, mask, 2.0)
    value = path.normalized().sample()
    assert value[1, 3:, 0].sum() == 0
    value[1, 3:, 0] = 1  # a guide may say anything there
    paid = 2 * (value[..., 0] * mask)[:, 1:].sum(-1)
    assert_close(path.log_prob(value), OptionPath(log_weights, logits, mask).log_prob(value) - paid)


def test_a_negative_cost_is_refused():
    with pytest.raises(ValueError, match="cost >= 0"):
        TiltedPath(*random_episodes(2, 2)[:2], cost=-1.0)
    model = make_model()
    with pytest.raises(ValueError, match="cost >= 0"):
        OptionHMM(model.policy, model.termination, termination_cost=-0.1)


def joint_log_prob(model, data, collapsed):
    pyro.set_rng_seed(0)
    with pyro.poutine.seed(rng_seed=0):
        return poutine.trace(collapse(model) if collapsed else model).get_trace(data).log_prob_sum()


@pytest.mark.parametrize("collapsed", [True, False])
def test_a_termination_cost_lowers_the_log_prob_and_zero_changes_nothing(collapsed):
    plain, data = make_model(), make_episodes()
    free = OptionHMM(plain.policy, plain.termination, termination_cost=0.0)
    dear = OptionHMM(plain.policy, plain.termination, termination_cost=1.5)
    assert joint_log_prob(free, data, collapsed) == joint_log_prob(plain, data, collapsed)
    assert joint_log_prob(dear, data, collapsed) < joint_log_prob(plain, data, collapsed) - 1


def segment_length(data, cost):
    set_seed(0)
    method = build(None, data, num_options=3, termination_cost=cost)
    train = TrainConfig(epochs=20, batch_size=16, learning_rate=6e-2, device="cpu", progress=False)
    Trainer(method.model, method.guide, data, train).run()
    weights = method.guide.weights.mean_log_weights()
    segmentation = Skills(method.model.policy, method.model.termination, weights).segment(data)
    return segmentation.mean_length, segmentation.mean_duration


def test_a_higher_cost_makes_longer_options():
    data = synthetic_options(3, 40, (20, 30), mean_duration=4.0, separation=1.5).trajectories
    lengths, durations = zip(*(segment_length(data, cost) for cost in (0.0, 2.0, 6.0)))
    assert durations[0] < durations[1] < durations[2] and durations[2] > 1.5 * durations[0]
    assert lengths[0] < lengths[1] < lengths[2]
