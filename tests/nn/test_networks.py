"""Policies, terminations and encoders of paths."""

import pytest
import torch
from support.layers import CONTINUOUS, DISCRETE, ENCODERS, LENGTHS, STATES, A, D, K, N, OwnNetwork, T, randomized
from support.paths import mask_of
from torch import nn
from torch.testing import assert_close

from pyro_options.growth import GrowableHeads, GrowableInput, grow, num_components, permute, prune, resize
from pyro_options.guides import GrowableGEM, PointGEM
from pyro_options.nn import reverse_episodes
from pyro_options.options import CategoricalPolicy, GaussianPolicy, PathEncoder, Termination, option_heads

every_encoder = pytest.mark.parametrize("name", ENCODERS)


@pytest.mark.parametrize("policy", [CategoricalPolicy, GaussianPolicy])
def test_a_custom_state_network_is_trained_with_the_heads(policy):
    network = OwnNetwork()
    module = policy(D, K, A, network=network)
    actions = DISCRETE if policy is CategoricalPolicy else CONTINUOUS
    module(STATES).component_log_prob(actions).sum().backward()
    assert module.network is network
    assert network.linear.weight.grad.abs().sum() > 0


def test_one_network_may_be_shared_by_policy_and_termination():
    network = OwnNetwork()
    modules = [CategoricalPolicy(D, K, A, network=network), Termination(D, K, network=network)]
    optimizer = torch.optim.Adam({p for module in modules for p in module.parameters()}, lr=0.01)
    grow([*modules, modules[0]], 1, optimizer)
    assert num_components(modules) == K + 1


def test_terminations_start_from_their_initial_logit_also_when_born_later():
    termination = Termination(D, 2, initial_logit=-20.0)
    grow([termination], 3)
    assert (termination(STATES) < -10).all()


def test_scale_of_a_gaussian_policy_is_bounded_below():
    policy = GaussianPolicy(D, K, A, min_log_scale=-2.0)
    with torch.no_grad():
        policy.log_scale.value.fill_(-50.0)
    assert (policy(STATES).log_scale == -2.0).all()


@every_encoder
def test_context_of_a_padded_episode_is_that_of_the_episode_alone(name):
    encoder, log_weights = ENCODERS[name](), torch.randn(K).log_softmax(0)
    padded = encoder.context(STATES, mask_of(LENGTHS, T), log_weights)
    for i, length in enumerate(LENGTHS):
        alone = encoder.context(STATES[i : i + 1, :length], mask_of((length,), length), log_weights)
        assert_close(padded[i, :length], alone[0], rtol=0, atol=1e-6)


def test_context_depends_on_later_steps_only():
    encoder, steps = PathEncoder(D, K), STATES.clone().requires_grad_()
    context = encoder.context(steps, mask_of(LENGTHS, T), torch.zeros(K))
    for i, length in enumerate(LENGTHS):
        for t in range(length):
            (gradient,) = torch.autograd.grad(context[i, t].sum(), steps, retain_graph=True)
            influence = gradient[i].abs().sum(-1)
            assert (influence[:t] == 0).all()
            assert (influence[t:length] > 0).all()
            assert (influence[length:] == 0).all()
            assert not gradient[torch.arange(N) != i].any()  # other episodes do not matter


def test_reversing_episodes_twice_does_nothing():
    mask = mask_of(LENGTHS, T)
    backwards = reverse_episodes(STATES, mask)
    assert torch.equal(reverse_episodes(backwards, mask), STATES)
    for i, length in enumerate(LENGTHS):
        assert torch.equal(backwards[i, :length], STATES[i, :length].flip(0))


@every_encoder
def test_encoder_follows_a_permutation_of_the_options(name):
    encoder, order = randomized(ENCODERS[name]()), torch.tensor([2, 0, 3, 1])
    log_weights, b, h = torch.randn(K).log_softmax(0), torch.rand(N, T, 1), torch.rand(N, T, K).softmax(-1)

    def logits(log_weights, h):
        context = encoder.context(STATES, mask_of(LENGTHS, T), log_weights)
        return encoder.decoder()(context, torch.cat([b, h], -1)).split([1, K], -1)

    termination, options = logits(log_weights, h)
    permute([encoder], order.tolist())
    permuted_termination, permuted_options = logits(log_weights[order], h[..., order])
    assert_close(permuted_termination, termination, rtol=0, atol=1e-5)
    assert_close(permuted_options, options[..., order], rtol=0, atol=1e-5)


@every_encoder
def test_growth_changes_no_logit_of_the_encoder_for_existing_options(name):
    """Whatever weight and path a newborn has: its input columns start at zero."""
    encoder = randomized(ENCODERS[name]())
    log_weights, path = torch.randn(K).log_softmax(0), torch.rand(N, T, K + 1)
    before = encoder.decoder()(encoder.context(STATES, mask_of(LENGTHS, T), log_weights), path)
    grow([encoder])
    log_weights, path = torch.cat([log_weights, torch.zeros(1)]), torch.cat([path, torch.rand(N, T, 1)], -1)
    after = encoder.decoder()(encoder.context(STATES, mask_of(LENGTHS, T), log_weights), path)
    assert_close(after[..., : K + 1], before, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: GrowableHeads(D, 0, A),
        lambda: GrowableInput(0, A),
        lambda: CategoricalPolicy(D, 0, A),
        lambda: CategoricalPolicy(0, K, A),
        lambda: CategoricalPolicy(D, K, 0),
        lambda: GaussianPolicy(D, K, 0),
        lambda: Termination(D, 0),
        lambda: PathEncoder(D, 0),
        lambda: PathEncoder(D, K, hidden=()),
        lambda: GrowableGEM(0),
        lambda: GrowableGEM(K, initial_mean=1.0),
        lambda: PointGEM(0),
        lambda: PointGEM(K, initial_mean=0.0),
        lambda: grow([GrowableGEM(K)], 0),
        lambda: prune([GrowableGEM(K)], range(K)),
        lambda: prune([GrowableGEM(K)], [K]),
        lambda: prune([GrowableGEM(K)], [-1]),
        lambda: permute([GrowableGEM(K)], [0, 0, 1, 2]),
        lambda: permute([GrowableGEM(K)], [0, 1, 2]),
        lambda: resize([GrowableGEM(K)], [0, 1], num_new=-1),
        lambda: resize([GrowableGEM(K)], [0, 0]),
        lambda: num_components([nn.Linear(2, 2)]),
        lambda: num_components([GrowableGEM(K), GrowableHeads(D, K + 1, A)]),
    ],
)
def test_bad_arguments_say_what_was_expected(bad):
    with pytest.raises(ValueError, match="Expected"):
        bad()


@pytest.mark.parametrize("hidden", [(), (5,)], ids=["linear", "network"])
@pytest.mark.parametrize("kind", [CategoricalPolicy, GaussianPolicy])
def test_heads_in_one_product_equal_policy_and_termination_apart(kind, hidden):
    policy, termination = kind(6, 3, 2, hidden), Termination(6, 3, hidden, initial_logit=-1.5)
    states, path = torch.randn(4, 5, 6), torch.rand(4, 5, 4)
    actions, logits = option_heads(policy, termination, states)
    value = policy(states, path).sample()
    assert_close(logits, termination(states))
    assert_close(actions(path).log_prob(value), policy(states, path).log_prob(value))


def test_other_policies_are_called_unchanged():
    class Doubled(nn.Module):
        def forward(self, states, path, mask):
            return 2 * states

    actions, logits = option_heads(Doubled(), nn.Identity(), torch.ones(1, 2, 3))
    assert_close(actions(None, None), torch.full((1, 2, 3), 2.0))
    assert_close(logits, torch.ones(1, 2, 3))
