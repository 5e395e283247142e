"""The LSTM with its input product taken out is torch's LSTM on reversed episodes."""

import sys

import pytest
import torch
from support.paths import mask_of
from torch import nn
from torch.testing import assert_close

from pyro_options.nn import reverse_episodes
from pyro_options.nn.backward_lstm import backward_lstm
from pyro_options.nn.linear_of_parts import linear_of_parts

MODULE = sys.modules["pyro_options.nn.backward_lstm"]
N, T = 7, 9


def value_and_gradients(hidden, lstm):
    weights = torch.linspace(-1, 2, hidden.numel(), dtype=hidden.dtype).reshape(hidden.shape)
    return [hidden.detach(), *torch.autograd.grad((hidden * weights).sum(), list(lstm.parameters()))]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("size", [1, 6, 32])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "torch"])
def test_equals_torch_on_reversed_episodes(compiled, size, threads, monkeypatch):
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr(MODULE.KERNEL, "thread_work", 1)
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    else:
        monkeypatch.setattr(MODULE.KERNEL, "module", None)
    lstm = nn.LSTM(6, size, batch_first=True).double()
    states, actions = 3 * torch.randn(N, T, 4, dtype=torch.float64), torch.randn(N, T, 2, dtype=torch.float64)
    mask = mask_of((9, 1, 5, 9, 2, 9, 4), T)  # four together for one step, and three more
    steps = torch.cat([states, actions], -1)
    expected = reverse_episodes(lstm(reverse_episodes(steps, mask))[0], mask) * mask.unsqueeze(-1)
    result = backward_lstm(lstm, (states, actions), mask)
    for ours, theirs in zip(value_and_gradients(result, lstm), value_and_gradients(expected, lstm)):
        assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("lengths", [(5, 3), (4, 5, 3, 5, 2)])
def test_gradient_reaches_the_inputs(lengths):
    lstm = nn.LSTM(3, 4, batch_first=True).double()
    steps = torch.randn(len(lengths), 5, 3, dtype=torch.float64, requires_grad=True)
    mask = mask_of(lengths, 5)
    assert torch.autograd.gradcheck(lambda x: backward_lstm(lstm, (x,), mask), (steps,))


def test_a_linear_layer_of_narrow_parts_can_be_differentiated_twice():
    weight, bias = torch.randn(3, 6, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    first, second, third = (torch.randn(2, 4, n, dtype=torch.float64) for n in (1, 2, 3))
    leaves = tuple(x.requires_grad_() for x in (weight, bias, first, third))  # the second needs no gradient

    def layer(weight, bias, first, third):
        return linear_of_parts((first, second, third), weight, bias)

    assert_close(layer(*leaves), nn.functional.linear(torch.cat([first, second, third], -1), weight, bias))
    assert torch.autograd.gradcheck(layer, leaves) and torch.autograd.gradgradcheck(layer, leaves)


def test_saturated_gates_stay_finite():
    lstm = nn.LSTM(1, 4, batch_first=True)
    hidden = backward_lstm(lstm, (torch.full((1, 3, 1), 1e6),), mask_of((3,), 3))
    assert all(torch.isfinite(x).all() for x in value_and_gradients(hidden, lstm))


def test_single_precision_is_as_good_as_torch():
    lstm, steps = nn.LSTM(3, 8, batch_first=True), 2 * torch.randn(2, 40, 3)
    mask = mask_of((40, 40), 40)
    expected = reverse_episodes(lstm(reverse_episodes(steps, mask))[0], mask)
    assert_close(backward_lstm(lstm, (steps,), mask), expected, rtol=1e-5, atol=1e-6)
