"""The distribution over option paths against enumeration, a hidden Markov model and the paper."""

import itertools
import math

import numpy as np
import pytest
import torch
from hmmlearn.hmm import CategoricalHMM
from support.paths import P_VALUE, enumerate_paths, mask_of, path_goodness_of_fit, random_episodes
from torch.autograd import gradcheck
from torch.nn.functional import one_hot
from torch.testing import assert_close

from pyro_options.options import OptionPath, encode_path

EXACT = {"rtol": 1e-10, "atol": 1e-10}
SHAPES = [(1, 1), (1, 3), (2, 2), (4, 1), (3, 3), (5, 2), (4, 3)]  # (T, K)
leftovers = pytest.mark.parametrize("leftover", [0.0, 0.3])
shapes = pytest.mark.parametrize("num_steps, num_options", SHAPES)


@leftovers
@shapes
def test_log_prob_of_every_path_equals_the_generative_process(num_steps, num_options, leftover):
    log_weights, logits, emission = random_episodes(num_steps, num_options, leftover=leftover)
    paths = enumerate_paths(log_weights, logits, emission)
    log_prob = OptionPath(log_weights, logits).log_prob(paths.values(num_options))
    possible = paths.prior > 0
    assert_close(log_prob[possible], paths.prior[possible].log(), **EXACT)
    assert (log_prob[~possible] < -600).all()
    if leftover == 0 or num_steps == 1:
        assert log_prob.exp().sum() == pytest.approx(1 - leftover, abs=1e-10)
    else:
        assert log_prob.exp().sum() < 1 - leftover


@leftovers
@shapes
def test_log_marginal_equals_enumeration(num_steps, num_options, leftover):
    episode = random_episodes(num_steps, num_options, leftover=leftover)
    expected = enumerate_paths(*episode).joint.sum().log()
    assert_close(OptionPath(*episode[:2]).log_marginal(episode[2]), expected, **EXACT)


@leftovers
@shapes
def test_posterior_equals_enumeration(num_steps, num_options, leftover):
    episode = random_episodes(num_steps, num_options, leftover=leftover)
    paths = enumerate_paths(*episode)
    posterior = OptionPath(*episode[:2]).posterior(episode[2])
    hot, b = one_hot(paths.options, num_options).double(), paths.terminations.double()
    assert_close(posterior.options, torch.einsum("p,ptk->tk", paths.posterior, hot), **EXACT)
    assert_close(posterior.starts, torch.einsum("p,pt,ptk->tk", paths.posterior, b, hot), **EXACT)
    assert_close(posterior.switches, torch.einsum("p,pt->t", paths.posterior, b), **EXACT)
    assert_close(posterior.log_marginal, paths.joint.sum().log(), **EXACT)


@leftovers
@shapes
def test_viterbi_equals_enumeration(num_steps, num_options, leftover):
    episode = random_episodes(num_steps, num_options, leftover=leftover)
    paths = enumerate_paths(*episode)
    sequences, index = paths.options.unique(dim=0, return_inverse=True)
    probability = torch.zeros(len(sequences)).double().index_add(0, index, paths.joint)  # terminations summed out
    options, log_prob = OptionPath(*episode[:2]).viterbi(episode[2])
    assert torch.equal(options, sequences[probability.argmax()])
    assert_close(log_prob, probability.max().log(), **EXACT)


@pytest.mark.parametrize("lengths", [None, (4, 2, 1)])
def test_gradient_of_log_marginal_is_right_in_every_input(lengths):
    episodes = [tensor.requires_grad_() for tensor in random_episodes(4, 3, batch=(3,), leftover=0.2)]
    mask = None if lengths is None else mask_of(lengths, 4)
    assert gradcheck(lambda *inputs: OptionPath(*inputs[:2], mask).log_marginal(inputs[2]), episodes)


def test_gradient_in_the_emission_is_the_posterior():
    log_weights, logits, emission = random_episodes(5, 3, batch=(2,))
    path = OptionPath(log_weights, logits, mask_of((5, 3), 5))
    emission.requires_grad_()
    (gradient,) = torch.autograd.grad(path.log_marginal(emission).sum(), emission)
    assert_close(gradient, path.posterior(emission.detach()).options, **EXACT)


@pytest.mark.parametrize("outer", [lambda x: x, torch.exp], ids=["plain", "curved"])
def test_differentiating_log_marginal_twice_is_an_error(outer):
    """Never a silent zero: the term must not vanish from a loss that has other terms."""
    log_weights, logits, emission = random_episodes(3, 2)
    emission.requires_grad_()
    with pytest.raises(RuntimeError, match="twice"):
        value = outer(OptionPath(log_weights, logits).log_marginal(emission))
        (gradient,) = torch.autograd.grad(value, emission, create_graph=True)
        (gradient.square().sum() + emission.sum()).backward()


def test_posterior_may_be_differentiated():
    log_weights, logits, emission = random_episodes(3, 2)
    inputs = [tensor.requires_grad_() for tensor in (log_weights, logits, emission)]
    assert gradcheck(lambda *values: OptionPath(*values[:2]).posterior(values[2]).options, inputs)


@pytest.mark.parametrize("num_options", [2, 4])
def test_state_free_options_are_a_hidden_markov_model(num_options):
    T, A = 30, 5
    log_weights, policy = random_episodes(T, num_options)[0], torch.randn(num_options, A).double().log_softmax(-1)
    psi, actions = torch.rand(num_options).double(), torch.randint(A, (T,))
    weights = log_weights.exp()
    hmm = CategoricalHMM(num_options, n_features=A)
    hmm.startprob_, hmm.emissionprob_ = weights.numpy(), policy.exp().numpy()
    hmm.transmat_ = (psi[:, None] * weights + torch.diag(1 - psi)).numpy()
    observed = actions.numpy()[:, None]

    path, emission = OptionPath(log_weights, torch.logit(psi).expand(T, -1)), policy.T[actions]
    posterior, (options, log_prob) = path.posterior(emission), path.viterbi(emission)
    decoded_log_prob, decoded = hmm.decode(observed, algorithm="viterbi")
    close = {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_allclose(path.log_marginal(emission), hmm.score(observed), **close)
    np.testing.assert_allclose(posterior.options, hmm.score_samples(observed)[1], **close)
    np.testing.assert_allclose(log_prob, decoded_log_prob, **close)
    np.testing.assert_array_equal(options, decoded)


def everything(path, emission, value):
    """Every number that a path distribution gives and its gradients, by name."""
    leaves = [tensor.clone().requires_grad_() for tensor in (path.log_weights, path.termination_logits, emission)]
    path = OptionPath(*leaves[:2], path.step_mask)
    log_prob, log_marginal, posterior = path.log_prob(value), path.log_marginal(leaves[2]), path.posterior(leaves[2])
    options, best = path.viterbi(leaves[2])
    numbers = {"log_prob": log_prob, "log_marginal": log_marginal, "viterbi": options, "viterbi log_prob": best}
    numbers |= {"options": posterior.options, "starts": posterior.starts, "evidence": posterior.log_marginal}
    for name, output, inputs in [("log_prob", log_prob, leaves[:2]), ("log_marginal", log_marginal, leaves)]:
        gradients = torch.autograd.grad(output.sum(), inputs)
        numbers |= {f"{name} gradient {i}": gradient for i, gradient in enumerate(gradients)}
    return {name: number.detach() for name, number in numbers.items()}


@pytest.mark.parametrize("garbage", [1e3, -1e30, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("relaxed", [False, True])
def test_garbage_in_the_padding_changes_nothing(garbage, relaxed):
    lengths, T, K = (5, 3, 1), 5, 3
    log_weights, logits, emission = random_episodes(T, K, batch=(3,))
    mask = mask_of(lengths, T)
    value = OptionPath(log_weights, logits, mask).sample()
    if relaxed:
        value = torch.cat([torch.rand(3, T, 1).double(), torch.rand(3, T, K).double().softmax(-1)], -1)
    expected = everything(OptionPath(log_weights, logits, mask), emission, value)
    logits, emission = (torch.where(mask[..., None], tensor, garbage) for tensor in (logits, emission))
    value = torch.where(mask[..., None], value, 0.25)
    actual = everything(OptionPath(log_weights, logits, mask), emission, value)
    for name, number in expected.items():
        assert torch.equal(actual[name], number), name


def test_a_padded_episode_gives_the_results_of_the_episode_alone():
    lengths, T, K = (5, 3, 1), 5, 3
    log_weights, logits, emission = random_episodes(T, K, batch=(3,))
    value = OptionPath(log_weights, logits).sample()
    for i, length in enumerate(lengths):
        alone = everything(OptionPath(log_weights, logits[i, :length]), emission[i, :length], value[i, :length])
        padded = OptionPath(log_weights, logits[i : i + 1], mask_of((length,), T))
        padded = everything(padded, emission[i : i + 1], value[i : i + 1])
        for name, number in alone.items():
            actual = padded[name] if name.endswith("gradient 0") else padded[name][0]
            if actual.shape[:1] == (T,):
                assert name == "viterbi" or (actual[length:] == 0).all(), name
                actual = actual[:length]
            assert_close(actual, number, **EXACT, msg=name)


def test_viterbi_repeats_the_last_option_in_the_padding():
    log_weights, logits, emission = random_episodes(6, 3, batch=(4,))
    options, _ = OptionPath(log_weights, logits, mask_of((6, 4, 2, 1), 6)).viterbi(emission)
    for row, length in zip(options, (6, 4, 2, 1)):
        assert (row[length:] == row[length - 1]).all()


@leftovers
def test_posterior_samples_follow_the_enumerated_posterior(leftover):
    T, K = 3, 2
    log_weights, logits, emission = random_episodes(T, K, leftover=leftover)
    paths = enumerate_paths(log_weights, logits, emission)
    possible = paths.prior > 0
    samples = OptionPath(log_weights, logits).sample_posterior(emission.expand(20_000, T, K))
    assert path_goodness_of_fit(samples, paths.values(K)[possible], paths.posterior[possible]) > P_VALUE


def relaxation(weights, psi, b, h):
    """Appendix A of the paper, term by term, for one episode."""
    total = math.log(b[0]) + math.log(weights @ h[0])
    for t in range(1, len(b)):
        stop, same = psi[t] @ h[t - 1], 1 - (h[t] - h[t - 1]).abs().sum() / 2
        total += torch.log(b[t] * stop * (weights @ h[t]) + (1 - b[t]) * (1 - stop) * same)
    return total


@leftovers
def test_relaxed_log_prob_equals_appendix_a_of_the_paper(leftover):
    log_weights, logits, _ = random_episodes(5, 3, batch=(4,), leftover=leftover)
    b, h = torch.rand(4, 5).double(), torch.randn(4, 5, 3).double().softmax(-1)
    expected = [relaxation(log_weights.exp(), torch.sigmoid(logits[i]), b[i], h[i]) for i in range(4)]
    actual = OptionPath(log_weights, logits).log_prob(torch.cat([b[..., None], h], -1))
    assert_close(actual, torch.stack(expected), **EXACT)


@pytest.mark.parametrize("other", [0.0, 1e-38, 1e-20, 1e-7])
@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_nearly_discrete_paths_have_finite_gradients_in_float32(other, scale):
    T, K = 6, 3
    hot = torch.eye(K)[torch.tensor(list(itertools.product(range(K), repeat=T)))]  # (K^T, T, K)
    h = hot * (1 - (K - 1) * other) + (1 - hot) * other
    for bit in (other, 1 - other):
        value = torch.cat([torch.full_like(h[..., :1], bit), h], -1).requires_grad_()
        log_weights = torch.tensor([-0.1, -3.0, -40.0]).requires_grad_()
        logits = (scale * torch.randn(T, K).sign()).requires_grad_()
        log_prob = OptionPath(log_weights, logits).log_prob(value)
        assert log_prob.isfinite().all()
        for gradient in torch.autograd.grad(log_prob.sum(), (value, log_weights, logits)):
            assert gradient.isfinite().all()


def test_impossible_actions_leave_the_gradient_finite():
    """An option may give an action probability zero, as long as another explains it."""
    log_weights, logits, emission = random_episodes(4, 2, dtype=torch.float32)
    emission[1, 0] = emission[3, 1] = -math.inf
    inputs = [tensor.requires_grad_() for tensor in (log_weights, logits, emission)]
    log_marginal = OptionPath(log_weights, logits).log_marginal(emission)
    assert log_marginal.isfinite()
    for gradient in torch.autograd.grad(log_marginal, inputs):
        assert gradient.isfinite().all()


def test_samples_of_weights_broadcast_against_episodes():
    S, N, T, K = 3, 2, 4, 2
    _, logits, emission = random_episodes(T, K, batch=(N,))
    log_weights, mask = torch.randn(S, 1, K).double().log_softmax(-1), mask_of((4, 3), T)
    path = OptionPath(log_weights, logits, mask)
    value = path.sample()
    log_prob, log_marginal, posterior = path.log_prob(value), path.log_marginal(emission), path.posterior(emission)
    viterbi = path.viterbi(emission)
    assert path.batch_shape == log_prob.shape == log_marginal.shape == (S, N)
    assert value.shape == path.sample_posterior(emission).shape == (S, N, T, K + 1)
    for s, n in itertools.product(range(S), range(N)):
        one = OptionPath(log_weights[s, 0], logits[n], mask[n])
        assert_close(log_prob[s, n], one.log_prob(value[s, n]))
        assert_close(log_marginal[s, n], one.log_marginal(emission[n]))
        assert_close(posterior.options[s, n], one.posterior(emission[n]).options)
        for many, alone in zip(viterbi, one.viterbi(emission[n])):
            assert_close(many[s, n], alone)


def test_expand_and_sample_shapes_agree_with_log_prob():
    path = OptionPath(*random_episodes(4, 2)[:2], torch.tensor([True, True, True, False])).expand([3])
    value = path.sample((5,))
    assert value.shape == (5, 3, 4, 3)
    assert path.log_prob(value).shape == (5, 3)
    assert (value[..., 3, 0] == 0).all()  # nothing terminates in the padding
    assert (value[..., 3, 1:] == value[..., 2, 1:]).all()


def test_long_episodes_do_not_lose_precision():
    T, K = 2000, 6
    log_weights, logits, emission = random_episodes(T, K)
    emission = emission - 10
    single = OptionPath(log_weights.float(), logits.float()).log_marginal(emission.float())
    assert_close(single.double(), OptionPath(log_weights, logits).log_marginal(emission), rtol=1e-5, atol=0)


def test_encoded_paths_hold_the_termination_before_the_option():
    actual = encode_path(torch.tensor([2, 2, 0]), torch.tensor([1, 0, 1]), 3)
    assert actual.tolist() == [[1, 0, 0, 1], [0, 0, 0, 1], [1, 1, 0, 0]]


@pytest.mark.parametrize(
    "weights, logits, mask",
    [
        ((3,), (3,), None),
        ((), (2, 3), None),
        ((2,), (4, 3), None),
        ((0,), (4, 0), None),
        ((3,), (0, 3), None),
        ((3,), (5, 4, 3), (4,)),
        ((3,), (4, 3), (5,)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(weights, logits, mask):
    with pytest.raises(ValueError, match="Expected"):
        OptionPath(torch.zeros(weights), torch.zeros(logits), None if mask is None else torch.ones(mask).bool())


@pytest.mark.parametrize("shape", [(4,), (4, 2), (3, 3)])
def test_emission_that_does_not_fit_is_refused(shape):
    with pytest.raises(ValueError, match="Expected an emission"):
        OptionPath(torch.zeros(3), torch.zeros(4, 3)).log_marginal(torch.zeros(shape))
