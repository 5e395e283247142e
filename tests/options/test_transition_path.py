"""Paths in which the next option depends on the last: everything against enumeration of all paths."""

import itertools
import math

import pytest
import torch
from support.paths import P_VALUE, Enumeration, mask_of, path_goodness_of_fit, path_probability
from torch.autograd import gradcheck
from torch.testing import assert_close

from pyro_options.errors import InputError
from pyro_options.options import CategoricalActions, OptionPath, TransitionPath
from pyro_options.options.path import encode_path

sizes = pytest.mark.parametrize(("num_steps", "num_options"), [(1, 1), (1, 3), (3, 2), (4, 3), (5, 3)])


def random_inputs(num_steps, num_options, batch=(), leftover=0.1):
    """Weights ``(1 + K, K)`` whose rows sum to ``1 - leftover``, termination logits and emission."""
    generator = torch.Generator().manual_seed(7 * num_steps + num_options)
    draw = lambda *shape: torch.randn(shape, dtype=torch.float64, generator=generator)  # noqa: E731
    weights = torch.log_softmax(draw(num_options + 1, num_options), -1) + math.log(1 - leftover)
    return weights, draw(*batch, num_steps, num_options), 2 * draw(*batch, num_steps, num_options)


def enumerate_transitions(log_weights, termination_logits, emission) -> Enumeration:
    T, K = emission.shape
    weights, psi = log_weights.exp().tolist(), torch.sigmoid(termination_logits).tolist()
    likelihood, paths, prior, joint = emission.exp().tolist(), [], [], []
    for b in itertools.product((0, 1), repeat=T):
        for h in itertools.product(range(K), repeat=T):
            probability = path_probability([weights[0], *(weights[1 + k] for k in h[:-1])], psi, b, h)
            prior.append(probability)
            for t in range(T):
                probability *= likelihood[t][h[t]]
            joint.append(probability)
            paths.append((b, h))
    terminations, options = (torch.tensor(part) for part in zip(*paths))
    prior, joint = (torch.tensor(numbers, dtype=torch.float64) for numbers in (prior, joint))
    return Enumeration(terminations, options, prior, joint)


@sizes
def test_marginal_posterior_viterbi_and_density_equal_enumeration(num_steps, num_options):
    weights, logits, emission = random_inputs(num_steps, num_options)
    path, every = TransitionPath(weights, logits), enumerate_transitions(weights, logits, emission)
    assert_close(path.log_marginal(emission), every.joint.sum().log(), rtol=0, atol=1e-10)
    posterior = path.posterior(emission)
    assert_close(posterior.log_marginal, every.joint.sum().log(), rtol=0, atol=1e-10)
    for t, k in itertools.product(range(num_steps), range(num_options)):
        here = every.posterior * (every.options[:, t] == k)
        assert_close(posterior.options[t, k], here.sum(), rtol=0, atol=1e-10)
        assert_close(posterior.starts[t, k], (here * every.terminations[:, t]).sum(), rtol=0, atol=1e-10)
    sequences = [tuple(h) for h in every.options.tolist()]
    sums = dict.fromkeys(sequences, 0.0)
    for h, joint in zip(sequences, every.joint.tolist()):
        sums[h] += joint
    best, score = path.viterbi(emission)
    assert tuple(best.tolist()) == max(sums, key=sums.get)
    assert_close(score.exp(), torch.tensor(max(sums.values()), dtype=torch.float64), rtol=1e-10, atol=0)
    possible = every.prior > 0
    values = encode_path(every.options, every.terminations, num_options).double()
    assert_close(
        path.expand((len(values),)).log_prob(values)[possible], every.prior[possible].log(), rtol=0, atol=1e-10
    )


def test_the_gradient_is_that_of_the_sum_over_paths():
    weights, logits, emission = random_inputs(4, 3, (2, 2))
    mask = mask_of((4, 2, 1, 3), 4).reshape(2, 2, 4)
    inputs = [x.requires_grad_() for x in (weights, logits, emission)]
    assert gradcheck(lambda w, psi, e: TransitionPath(w, psi, mask).log_marginal(e), inputs)
    assert gradcheck(lambda w, psi, e: TransitionPath(w, psi, mask).posterior(e).options, inputs)


def test_padding_does_not_matter():
    weights, logits, emission = random_inputs(5, 3, (3,))
    logits[1, 3:], emission[1, 3:] = torch.nan, torch.nan
    path, short = (
        TransitionPath(weights, logits, mask_of((5, 3, 5), 5)),
        TransitionPath(weights, logits[1, :3]),
    )
    assert_close(path.log_marginal(emission)[1], short.log_marginal(emission[1, :3]))
    assert_close(path.posterior(emission).options[1, :3], short.posterior(emission[1, :3]).options)
    assert (path.posterior(emission).options[1, 3:] == 0).all()
    assert torch.equal(path.viterbi(emission)[0][1, :3], short.viterbi(emission[1, :3])[0])
    assert (path.viterbi(emission)[0][1, 3:] == path.viterbi(emission)[0][1, 2]).all()
    assert path.sample((4,)).shape == (4, 3, 5, 4) and path.sample_posterior(emission).shape == (3, 5, 4)


def test_equal_rows_are_an_option_path():
    weights, logits, emission = random_inputs(6, 4, (3,))
    mask = mask_of((6, 2, 4), 6)
    same, plain = TransitionPath(weights[0].expand(5, 4), logits, mask), OptionPath(weights[0], logits, mask)
    assert_close(same.log_marginal(emission), plain.log_marginal(emission))
    assert_close(same.posterior(emission).starts, plain.posterior(emission).starts)
    relaxed = torch.rand(3, 6, 5, dtype=torch.float64)
    assert_close(same.log_prob(relaxed), plain.log_prob(relaxed))


def test_samples_have_the_probabilities_of_enumeration():
    weights, logits, emission = random_inputs(3, 2, leftover=0.0)
    path, every = TransitionPath(weights, logits), enumerate_transitions(weights, logits, emission)
    torch.manual_seed(0)
    possible = every.prior > 0
    values = every.values(2)[possible]
    assert path_goodness_of_fit(path.sample((20_000,)), values, every.prior[possible]) > P_VALUE
    drawn = path.expand((20_000,)).sample_posterior((emission / 4).expand(20_000, 3, 2))
    every = enumerate_transitions(weights, logits, emission / 4)
    assert path_goodness_of_fit(drawn, values, every.posterior[possible]) > P_VALUE


def test_float32_stays_finite_with_absent_options_and_extreme_emission():
    weights = torch.log_softmax(torch.randn(5, 4), -1)
    weights[:, 3] = -70.0
    weights.requires_grad_()
    emission = torch.tensor([0.0, -200.0, 300.0, 1000.0]).expand(8, 4).clone()
    emission[::2] = emission[::2].flip(-1)
    path = TransitionPath(weights, torch.randn(8, 4))
    value = path.log_marginal(emission)
    value.backward()
    assert value.isfinite() and weights.grad.isfinite().all()


def test_weights_of_a_wrong_shape_are_refused():
    with pytest.raises(InputError, match=r"log_weights of shape \(4, 3\) but got \(3, 3\)"):
        TransitionPath(torch.zeros(3, 3), torch.zeros(5, 3))


def test_the_path_can_be_summed_out_of_actions():
    weights, logits, _ = random_inputs(5, 3, (2,))
    likelihood = CategoricalActions(torch.randn(2, 5, 3, 4, dtype=torch.float64))
    actions = torch.randint(4, (2, 5))
    marginal = TransitionPath(weights, logits).marginalize(likelihood)
    expected = TransitionPath(weights, logits).log_marginal(likelihood.component_log_prob(actions))
    assert_close(marginal.log_prob(actions), expected)
    assert_close(marginal.weighed(actions)(weights), expected)
    assert_close(marginal.expand((2,)).responsibilities(actions).sum(-1), torch.ones(2, 5).double())


def test_all_paths_have_probability_one_together_also_those_that_leave_the_options():
    """Weights that sum to less than one: a path may draw an option not yet created, and keeps it."""
    torch.manual_seed(0)
    K, T = 2, 3
    weights = torch.log(0.8 * torch.softmax(torch.randn(K + 1, K, dtype=torch.float64), -1))
    path = TransitionPath(weights, torch.randn(T, K, dtype=torch.float64))
    total, frequencies = 0.0, {}
    rows = [*torch.eye(K, dtype=torch.float64), torch.zeros(K, dtype=torch.float64)]
    for options in itertools.product(range(K + 1), repeat=T):
        for stops in itertools.product((0.0, 1.0), repeat=T - 1):
            b = torch.tensor([1.0, *stops], dtype=torch.float64)
            value = torch.cat([b.unsqueeze(-1), torch.stack([rows[k] for k in options])], -1)
            probability = float(path.log_prob(value).exp())
            frequencies[(options, stops)] = probability
            total += probability
    assert total == pytest.approx(1, abs=1e-9)
    drawn = path.sample((20_000,))
    stays_away = float((drawn[:, -1, 1:].sum(-1) == 0).double().mean())
    expected = sum(p for (options, _), p in frequencies.items() if options[-1] == K)
    assert stays_away == pytest.approx(expected, abs=0.012)
    assert (path.normalized().sample((500,))[..., 1:].sum(-1) == 1).all()
