"""The compiled loop over the steps of a path is the loop in torch."""

import sys

import pytest
import torch
from torch.testing import assert_close

from pyro_options.options import (
    AutoregressivePath,
    PathEncoder,
    RelaxedAutoregressivePath,
    StraightThroughPath,
)
from pyro_options.options import compiled_draw as decoder_draw

N, T, K = 4, 7, 3
LOOP = sys.modules["pyro_options.options.autoregressive_path"]


def draw(kind, hidden, coupled, compiled, monkeypatch, infer_first=False):
    """Path, logits, and the gradients of a function of both, from the same seed."""
    pytest.importorskip("numba")
    torch.manual_seed(3)
    encoder = PathEncoder(5, K, 6, hidden).double()
    context = torch.randn(N, T, hidden[0], dtype=torch.float64, requires_grad=True)
    path = kind(encoder.decoder(), context, K, coupled=coupled, infer_first=infer_first)
    if kind is not AutoregressivePath:
        path.temperature = 0.7
    with monkeypatch.context() as patch:
        if not compiled:
            patch.setattr(LOOP, "can_draw", lambda *_: False)
        value = path.sample() if kind is AutoregressivePath else path.rsample()
    weights = torch.linspace(-1, 2, value.numel(), dtype=torch.float64).reshape(value.shape)
    objective = (value * weights).sum() + path.log_prob(value).sum()
    parameters = [p for p in encoder.parameters() if not any(p is q for q in encoder.lstm.parameters())]
    grads = torch.autograd.grad(objective, [context, *parameters], allow_unused=True)
    return [value.detach(), path.logits(value).detach(), *(g for g in grads if g is not None)]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize("hidden", [(8,), (8, 5), (4, 6, 3)])
@pytest.mark.parametrize("kind", [RelaxedAutoregressivePath, StraightThroughPath, AutoregressivePath])
def test_compiled_equals_torch(kind, hidden, coupled, threads, monkeypatch):
    expected = draw(kind, hidden, coupled, False, monkeypatch)
    monkeypatch.setattr(decoder_draw.KERNEL, "thread_work", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    result = draw(kind, hidden, coupled, True, monkeypatch)
    assert len(result) == len(expected)
    for ours, theirs in zip(result, expected):
        assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("coupled", [True, False])
def test_compiled_equals_torch_with_an_inferred_b_0(coupled, monkeypatch):
    first, second = (draw(RelaxedAutoregressivePath, (8, 5), coupled, x, monkeypatch, True) for x in (False, True))
    assert (first[0][:, 0, 0] != 1).all()
    for ours, theirs in zip(second, first, strict=True):
        assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


def test_a_decoder_that_does_not_tell_its_layers_is_called_step_by_step():
    path = RelaxedAutoregressivePath(lambda context, previous: context[..., :4] + previous, torch.randn(N, T, 6), K)
    assert path.rsample().shape == (N, T, K + 1)
