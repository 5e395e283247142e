"""Autoregressive, relaxed and straight-through paths of guides."""

import itertools

import pytest
import torch
from support.paths import P_VALUE, mask_of, path_goodness_of_fit
from torch import nn
from torch.testing import assert_close

from pyro_options.options import AutoregressivePath, OptionPath, RelaxedAutoregressivePath, StraightThroughPath

N, T, K, H = 4, 3, 2, 3
coupling = pytest.mark.parametrize("coupled", [True, False])
differentiable = pytest.mark.parametrize("family", [RelaxedAutoregressivePath, StraightThroughPath])


class TinyDecoder(nn.Module):
    def __init__(self, num_options=K, scale=1.0):
        super().__init__()
        self.hidden, self.out = nn.Linear(H + num_options + 1, 6), nn.Linear(6, num_options + 1)
        self.scale = scale

    def forward(self, context, previous):
        return self.scale * self.out(torch.tanh(self.hidden(torch.cat([context, previous], -1))))


def make(family=AutoregressivePath, batch=(N,), mask=None, scale=1.0, dtype=torch.float64, **options):
    context = torch.randn(*batch, T, H, dtype=dtype)
    return family(TinyDecoder(scale=scale).to(dtype), context, K, mask, **options)


def all_values(coupled, first=(1,)):
    """Every path with b_0 in ``first``, ``(P, T, K + 1)``; with ``coupled`` only those that the model allows."""
    values = []
    for b in itertools.product(first, *[(0, 1)] * (T - 1)):
        for h in itertools.product(range(K), repeat=T):
            if not coupled or all(b[t] == 1 or h[t] == h[t - 1] for t in range(1, T)):
                values.append(torch.cat([torch.tensor(b)[:, None], torch.eye(K)[list(h)]], -1))
    return torch.stack(values).double()


@coupling
def test_probabilities_sum_to_one(coupled):
    path = make(batch=(), coupled=coupled)
    values = all_values(coupled)
    assert_close(path.expand([len(values)]).log_prob(values).exp().sum(), torch.tensor(1.0).double())


@coupling
def test_samples_follow_log_prob(coupled):
    path = make(batch=(), coupled=coupled)
    values = all_values(coupled)
    probs = path.expand([len(values)]).log_prob(values).exp().detach()
    assert path_goodness_of_fit(path.expand([20_000]).sample(), values, probs) > P_VALUE


@coupling
def test_b_0_is_inferred_like_the_others(coupled):
    path = make(batch=(), coupled=coupled, infer_first=True)
    values = all_values(coupled, first=(0, 1))
    probs = path.expand([len(values)]).log_prob(values).exp().detach()
    assert_close(probs.sum(), torch.tensor(1.0).double())
    assert path_goodness_of_fit(path.expand([20_000]).sample(), values, probs) > P_VALUE


def test_coupled_samples_are_possible_under_the_model():
    path = make(batch=(200,), scale=5.0)
    value = path.sample()
    model = OptionPath(torch.zeros(K).double().log_softmax(0), torch.zeros(200, T, K).double())
    assert path.log_prob(value).isfinite().all()
    assert (model.log_prob(value) > -100).all()


def test_uncoupled_samples_may_be_impossible_under_the_model():
    """Why coupling is the default."""
    model = OptionPath(torch.zeros(K).double().log_softmax(0), torch.zeros(200, T, K).double())
    assert (model.log_prob(make(batch=(200,), coupled=False).sample()) < -100).any()


@coupling
def test_relaxed_samples_lie_in_the_simplex(coupled):
    value = make(RelaxedAutoregressivePath, batch=(50,), coupled=coupled, temperature=0.7).rsample()
    assert ((value >= 0) & (value <= 1)).all()
    assert_close(value[..., 1:].sum(-1), torch.ones(50, T).double())
    assert (value[:, 0, 0] == 1).all()
    assert ((value > 0.01) & (value < 0.99)).any()


@coupling
@differentiable
@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_values_and_gradients_are_finite_at_low_temperature_in_float32(family, scale, coupled):
    path = make(family, batch=(500,), scale=scale, dtype=torch.float32, coupled=coupled, temperature=0.05)
    path.context.requires_grad_()
    value = path.rsample()
    log_prob = path.log_prob(value)
    assert value.dtype == torch.float32
    assert value.isfinite().all()
    assert log_prob.isfinite().all()
    inputs = (path.context, *path.decoder.parameters())
    for output in (value.square().sum(), log_prob.sum()):
        for gradient in torch.autograd.grad(output, inputs, retain_graph=True):
            assert gradient.isfinite().all()


@coupling
@differentiable
def test_cached_logits_give_the_log_prob_and_gradient_of_recomputed_ones(family, coupled):
    path = make(family, coupled=coupled, temperature=0.5)
    value = path.rsample()
    parameters = list(path.decoder.parameters())
    results = []
    for argument in (value, value.clone()):
        log_prob = path.log_prob(argument)
        results.append([log_prob, *torch.autograd.grad(log_prob.sum(), parameters, retain_graph=True)])
    for cached, recomputed in zip(*results):
        assert_close(cached, recomputed)


@pytest.mark.parametrize("family", [AutoregressivePath, RelaxedAutoregressivePath, StraightThroughPath])
def test_log_prob_of_a_detached_sample_still_trains_the_decoder(family):
    path = make(family)
    value = path.sample()
    assert not value.requires_grad
    path.log_prob(value).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in path.decoder.parameters())


@coupling
def test_straight_through_values_are_discrete_and_carry_gradients(coupled):
    path = make(StraightThroughPath, batch=(50,), coupled=coupled, dtype=torch.float32)
    path.context.requires_grad_()
    value = path.rsample()
    assert_close(value, value.round(), rtol=0, atol=1e-6)
    assert_close(value[..., 1:].sum(-1), torch.ones(50, T))
    (value * torch.randn(K + 1)).sum().backward()
    for tensor in (path.context, *path.decoder.parameters()):
        assert tensor.grad.abs().sum() > 0


@coupling
def test_a_relaxed_path_at_a_vertex_has_the_discrete_probability(coupled):
    discrete = make(batch=(), coupled=coupled)
    values = all_values(coupled)
    relaxed = RelaxedAutoregressivePath(discrete.decoder, discrete.context, K, coupled=coupled, temperature=0.3)
    assert_close(relaxed.expand([len(values)]).log_prob(values), discrete.expand([len(values)]).log_prob(values))


@coupling
def test_padding_does_not_change_log_prob(coupled):
    lengths = (3, 2, 1, 1)
    path = make(mask=mask_of(lengths, T), coupled=coupled)
    value = path.sample()
    expected = path.log_prob(value)
    for i, length in enumerate(lengths):
        alone = AutoregressivePath(path.decoder, path.context[i, :length], K, coupled=coupled)
        assert_close(expected[i], alone.log_prob(value[i, :length]))
    padding = ~path.step_mask[..., None]
    path.context, garbage = torch.where(padding, 1e3, path.context), torch.where(padding, 7.0, value)
    assert_close(path.log_prob(garbage), expected, rtol=0, atol=0)


def test_expanding_gives_independent_draws_of_the_same_path():
    path = make(RelaxedAutoregressivePath, mask=mask_of((3, 2, 1, 3), T))
    expanded = path.expand([5, N])
    value = expanded.rsample()
    assert expanded.batch_shape == (5, N)
    assert value.shape == (5, N, T, K + 1)
    assert not torch.equal(value[0], value[1])
    assert_close(expanded.log_prob(value)[2], path.log_prob(value[2]))
    assert path.expand([N]) is path


@pytest.mark.parametrize("family", [AutoregressivePath, RelaxedAutoregressivePath])
def test_a_sample_shape_is_refused(family):
    with pytest.raises(ValueError, match="Expected sample_shape"):
        make(family).sample((2,))


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_temperature_must_be_positive(temperature):
    with pytest.raises(ValueError, match="Expected temperature > 0"):
        make(RelaxedAutoregressivePath, temperature=temperature)
