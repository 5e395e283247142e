"""Compiled log-probabilities of choices are those of torch."""

import pytest
import torch
from torch.testing import assert_close

from pyro_options.options import choice
from pyro_options.options.choice import choice_log_prob

N, T, K, A = 3, 5, 4, 6


def problem(dtype):
    """Logits that are a part of a wider product, as policies have them, some of them extreme, and choices."""
    torch.manual_seed(0)
    wide = torch.randn(N, T, K * A + 3, dtype=dtype)
    wide[0, 0, :A] = torch.tensor([500.0, -500, 0, 499, 500, -1e4])
    wide[0, 1, 2] = -torch.inf  # an action that is never taken
    return wide.requires_grad_(), torch.randint(A, (N, T)).clamp(max=A - 1)


def value_and_grad(wide, index):
    log_prob = choice_log_prob(wide[..., : K * A].unflatten(-1, (K, A)), index)
    weights = torch.linspace(-1, 2, log_prob.numel(), dtype=log_prob.dtype).reshape(log_prob.shape)
    return log_prob.detach(), *torch.autograd.grad((log_prob * weights).sum(), wide)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-6)])
def test_compiled_equals_torch(dtype, tolerance, threads, monkeypatch):
    pytest.importorskip("numba")
    wide, index = problem(dtype)
    index[0, 1] = 3
    monkeypatch.setattr(choice.KERNELS, "thread_work", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    result = value_and_grad(wide, index)
    monkeypatch.setattr(choice.KERNELS, "module", None)
    exact = wide.detach().double().requires_grad_()  # torch loses digits of large logits in single precision
    for ours, theirs in zip(result, value_and_grad(exact, index), strict=True):
        assert ours.isfinite().all()
        assert_close(ours.double(), theirs, rtol=tolerance, atol=tolerance)


def test_gradients():
    torch.manual_seed(1)
    logits = torch.randn(2, 3, K, A, dtype=torch.float64, requires_grad=True)
    index = torch.randint(A, (2, 3))
    assert torch.autograd.gradcheck(lambda x: choice_log_prob(x, index), (logits,))


def test_logits_are_shared_by_many_choices():
    logits, index = torch.randn(T, K, A), torch.randint(A, (N, T))
    expected = torch.log_softmax(logits, -1).expand(N, T, K, A).gather(-1, index[..., None, None].expand(N, T, K, 1))
    assert_close(choice_log_prob(logits, index), expected.squeeze(-1))


def test_second_derivatives_are_refused():
    pytest.importorskip("numba")
    logits = torch.randn(1, 2, K, A, requires_grad=True)
    log_prob = choice_log_prob(logits, torch.zeros(1, 2, dtype=int))
    (grad,) = torch.autograd.grad((log_prob**2).sum(), logits, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()
