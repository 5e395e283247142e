"""The compiled marginal and best path are those of plain torch."""

import pytest
import torch
from support.paths import mask_of, random_episodes
from torch.testing import assert_close

from pyro_options.options import OptionPath
from pyro_options.options import marginal as log_marginal
from pyro_options.options.marginal import best_option_path, time_major
from pyro_options.options.recursion import best_path

N, T = 5, 30
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def moderate(K):
    return random_episodes(T, K, (N,), leftover=0.2)


def peaked(K):
    log_weights, logits, emission = random_episodes(T, K, (N,))
    return log_weights, 20 * logits, 50 * emission


def _signs(*shape):
    return 2.0 * torch.randint(2, shape, dtype=torch.float64) - 1


def extreme(K):
    """Within the range of float64, far outside that of float32."""
    log_weights = torch.where(torch.arange(K) > 0, -100.0, 0.0).double()
    return log_weights, 200 * _signs(N, T, K), 5e3 * (_signs(N, T, K) - 1)


def beyond(K):
    """Probabilities that float64 cannot hold, on which the likelihood depends."""
    log_weights = torch.where(torch.arange(K) > 0, -1000.0, 0.0).double()
    return log_weights, 2000 * _signs(N, T, K), -1e4 * torch.rand(N, T, K, dtype=torch.float64)


def fading(K):
    """Each step alone is harmless; what the steps lose together is not."""
    log_weights = torch.where(torch.arange(K) > 0, -800.0, 0.0).double()
    slowly = -400 * (torch.arange(K) == 0) * torch.ones(N, T, 1, dtype=torch.float64)
    return log_weights, torch.full((N, T, K), -600.0, dtype=torch.float64), slowly


def value_and_gradients(episodes, mask):
    leaves = [x.clone().requires_grad_() for x in episodes]
    value = OptionPath(*leaves[:2], mask).log_marginal(leaves[2])
    return [value.detach(), *torch.autograd.grad((value * torch.linspace(0.5, 2, N)).sum(), leaves)]


@pytest.fixture
def without_numba(monkeypatch):
    def switch():
        monkeypatch.setattr(log_marginal.KERNEL, "module", None)

    return switch


@pytest.mark.parametrize("lengths", [None, (30, 7, 1, 30, 12)], ids=["full", "ragged"])
@pytest.mark.parametrize("num_options", [1, 2, 7, 33])
@pytest.mark.parametrize("make", [moderate, peaked, extreme, beyond, fading])
def test_compiled_equals_torch(make, num_options, lengths, without_numba):
    pytest.importorskip("numba")
    assert log_marginal.KERNEL.module is not None
    mask = None if lengths is None else mask_of(lengths, T)
    episodes = make(num_options)
    compiled = value_and_gradients(episodes, mask)
    with torch.no_grad():
        posterior = OptionPath(*episodes[:2], mask).posterior(episodes[2])
    without_numba()
    expected = OptionPath(*episodes[:2], mask).posterior(episodes[2])
    for result, reference in zip(compiled, value_and_gradients(episodes, mask)):
        assert torch.isfinite(result).all()
        assert_close(result, reference, **CLOSE)
    for name in ("options", "starts", "log_marginal"):
        assert_close(getattr(posterior, name), getattr(expected, name), **CLOSE)


@pytest.mark.parametrize("make", [moderate, extreme, beyond])
def test_float32_is_as_exact_as_its_inputs(make):
    episodes = [x.float() for x in make(7)]
    single, double = value_and_gradients(episodes, None), value_and_gradients([x.double() for x in episodes], None)
    for result, reference in zip(single, double):
        assert result.dtype == torch.float32 and torch.isfinite(result).all()
        assert_close(result.double(), reference, rtol=1e-6, atol=1e-6)


def test_threads_share_the_episodes(monkeypatch):
    pytest.importorskip("numba")
    log_weights, logits, emission = random_episodes(T, 3, (N,))
    alone = value_and_gradients((log_weights, logits, emission), None)
    monkeypatch.setattr(log_marginal.KERNEL, "thread_work", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    for result, reference in zip(value_and_gradients((log_weights, logits, emission), None), alone):
        assert torch.equal(result, reference)


def test_nan_in_the_padding_reaches_nothing_and_nan_in_use_is_not_hidden():
    log_weights, logits, emission = moderate(3)
    mask = mask_of((30, 7, 1, 30, 12), T)
    logits[1, 7:], emission[1, 7:] = float("nan"), float("nan")
    assert all(torch.isfinite(x).all() for x in value_and_gradients((log_weights, logits, emission), mask))
    emission[3, 4, 1] = float("nan")
    value = OptionPath(log_weights, logits, mask).log_marginal(emission)
    assert torch.isnan(value).tolist() == [False, False, False, True, False]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "torch"])
def test_second_derivatives_are_refused(compiled, without_numba):
    if not compiled:
        without_numba()
    log_weights, logits, emission = moderate(2)
    emission.requires_grad_()
    value = OptionPath(log_weights, logits).log_marginal(emission).sum()
    with pytest.raises(RuntimeError, match=r"twice. Use posterior\(emission\)"):
        torch.autograd.grad(value, emission, create_graph=True)


@pytest.mark.parametrize("scale", [1, 30, 400])
@pytest.mark.parametrize(("num_options", "dtype"), [(1, torch.float64), (5, torch.float64), (5, torch.float32)])
def test_the_compiled_best_path_is_that_of_the_recursion(num_options, dtype, scale):
    """Also where options fall so far behind that the kernel leaves episodes to the recursion."""
    torch.manual_seed(0)
    shape = 20, 30, num_options
    weights = torch.log_softmax(scale * torch.randn(20, num_options, dtype=dtype), -1)
    logits, emission = scale * torch.randn(shape, dtype=dtype), -2 * scale * torch.rand(shape, dtype=dtype)
    mask = torch.arange(30) < torch.randint(1, 31, (20, 1))
    emission = emission.masked_fill(~mask.unsqueeze(-1), torch.nan)
    options, log_prob = best_option_path(weights, logits, emission, mask)
    expected, best = best_path(*time_major(weights, logits, emission, mask))
    assert torch.equal(options, expected.movedim(0, -1))
    assert_close(log_prob, best)
    impossible = emission.clone()
    impossible[:, 0, :-1] = -torch.inf
    options, log_prob = best_option_path(weights, logits, impossible, mask)
    assert (options[:, 0] == num_options - 1).all() and log_prob.isfinite().all()


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize("scale", [0.5, 3, 400])
def test_drawn_paths_have_the_marginals_of_the_posterior(scale, compiled, without_numba):
    """Of ragged episodes, and of one with a gap; at the largest scale the kernel leaves some to the recursion."""
    if not compiled:
        without_numba()
    torch.manual_seed(1)
    N, T, K, draws = 6, 7, 3, 4000
    weights = torch.log_softmax(scale * torch.randn(N, K, dtype=torch.float64), -1)
    logits, emission = scale * torch.randn(N, T, K).double(), -2 * scale * torch.rand(N, T, K).double()
    mask = torch.arange(T) < torch.tensor([7, 6, 4, 2, 1, 7]).unsqueeze(-1)
    mask[-1, 3:5] = False
    path = OptionPath(weights, logits, mask)
    expected = path.posterior(emission)
    drawn = path.sample_posterior(emission.expand(draws, N, T, K))
    stops, options = drawn[..., :1], drawn[..., 1:]
    for share, found in ((expected.options, options), (expected.starts, stops * options)):
        error = (share * (1 - share).clamp(min=0) / draws).sqrt() + 1e-9
        assert (((found.mean(0) - share).abs() / error)[mask] < 5).all()
    before, after = options[..., :-1, :], options[..., 1:, :]
    stays = stops[..., 1:, 0] == 0
    assert (before == after).all(-1)[stays].all() and stays[..., ~mask[:, 1:]].all()
