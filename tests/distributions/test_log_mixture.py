"""Compiled logarithms of mixtures are those of torch."""

import pytest
import torch
from pyro.ops.provenance import get_provenance, track_provenance
from torch.testing import assert_close

from pyro_options.distributions import log_mixture as mixing
from pyro_options.distributions.log_mixture import log_mix

N, T, K = 3, 5, 4


def problem(dtype):
    """Shares behind a column, as paths have them, some of them 0 or 1, and values far apart."""
    torch.manual_seed(0)
    path = torch.softmax(torch.randn(N, T, K + 1, dtype=dtype), -1)
    path[0, 0, 1:] = torch.tensor([1.0, 0, 0, 0])
    logs = torch.randn(N, T, K, dtype=dtype)
    logs[0, 0, 0] = -300.0  # all that there is is impossible
    logs[1, 2] = torch.tensor([0.0, -50, -300, 5])
    logs[2, 3] = -40.0
    return path.requires_grad_(), logs.requires_grad_()


def value_and_grads(path, logs):
    result = log_mix(path[..., 1:], logs)
    weights = torch.linspace(-1, 2, result.numel(), dtype=result.dtype).reshape(result.shape)
    return result.detach(), *torch.autograd.grad((result * weights).sum(), [path, logs])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_compiled_equals_torch(dtype, tolerance, threads, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(mixing.KERNELS, "thread_work", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    result = value_and_grads(*problem(dtype))
    monkeypatch.setattr(mixing.KERNELS, "module", None)
    for ours, theirs in zip(result, value_and_grads(*problem(dtype)), strict=True):
        assert ours.isfinite().all()
        assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_gradients_of_what_is_broadcast():
    torch.manual_seed(1)
    shares = torch.rand(N, 1, K, dtype=torch.float64, requires_grad=True)
    logs = torch.randn(T, K, dtype=torch.float64, requires_grad=True)
    assert log_mix(shares, logs).shape == (N, T)
    assert torch.autograd.gradcheck(log_mix, (shares, logs))


def test_nan_stays_nan():
    shares = torch.full((2, K), 1 / K)
    assert log_mix(shares, torch.tensor([[0.0, torch.nan, 0, 0], [0.0, 0, 0, 0]])).isnan().tolist() == [True, False]


def test_draws_that_pyro_tracks_stay_tracked_and_let_gradients_pass():
    path, logs = problem(torch.float64)
    result = log_mix(track_provenance(path[..., 1:].detach(), frozenset({"path"})), logs)
    assert get_provenance(result) == {"path"}
    assert_close(torch.autograd.grad(result.sum(), logs), torch.autograd.grad(log_mix(path[..., 1:], logs).sum(), logs))
