"""Bits that stay packed: products and gradients against unpacked ones in double precision, and all else unpacked."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from pyro_options.data import Trajectories, unpack_bits
from pyro_options.discovery import build
from pyro_options.infer import TrainConfig, Trainer
from pyro_options.nn import VaryingInputs
from pyro_options.nn.packed_bits import KERNEL, PackedBits

pytest.importorskip("numba")


def random_bytes(*shape):
    return torch.randint(0, 256, shape, dtype=torch.uint8)


def products(states, weight, bias, grad):
    """Output of a linear layer, and the gradients of its parameters."""
    parameters = [x.clone().requires_grad_() for x in (weight, bias)]
    out = nn.functional.linear(states, *parameters)
    return out.detach(), *torch.autograd.grad(out, parameters, grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("shape", "bits", "outputs"),
    [
        ((3, 50, 1), None, 3),  # neither rows nor bytes nor columns fill their blocks
        ((2, 9, 11), None, 1),
        ((9000, 9), None, 8),  # several blocks of rows
        ((70000, 2), None, 2),  # more rows than are summed one after the other
        ((64, 128), None, 200),  # several tiles of columns
        ((2, 100, 128), [0, 7, 8, 300, 301, 1023], 5),
        ((40, 16), [17], 4),
    ],
)
def test_products_equal_those_of_unpacked_bits(dtype, shape, bits, outputs):
    torch.manual_seed(0)
    packed, bits = random_bytes(*shape), None if bits is None else torch.tensor(bits)
    width = 8 * shape[-1] if bits is None else len(bits)
    weight, bias, grad = (
        torch.randn(size, dtype=dtype) for size in ((outputs, width), (outputs,), (*shape[:-1], outputs))
    )
    states = PackedBits(packed, dtype, bits)
    plain = unpack_bits(packed, torch.float64)
    plain = plain if bits is None else plain[..., bits]
    found, expected = (
        products(states, weight, bias, grad),
        products(plain, weight.double(), bias.double(), grad.double()),
    )
    assert states._values is None  # was never unpacked
    for ours, exact in zip(found, expected):
        error = (ours.double() - exact).abs().max() / exact.abs().max()
        assert ours.dtype == dtype and ours.shape == exact.shape
        assert error < (2e-6 if dtype == torch.float32 else 1e-14)


def test_gradcheck():
    torch.manual_seed(0)
    states = PackedBits(random_bytes(70, 3), torch.float64, torch.tensor([0, 3, 11, 23]))
    weight, bias = torch.randn(2, 4, dtype=torch.float64), torch.randn(2, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda w, b: nn.functional.linear(states, w, b), (weight.requires_grad_(), bias.requires_grad_())
    )
    assert_close(nn.functional.linear(states, weight), nn.functional.linear(states.unpack(), weight))


def test_threads_do_not_change_a_bit():
    packed, weight, bias, grad = random_bytes(9000, 40), torch.randn(7, 320), torch.randn(7), torch.randn(9000, 7)
    threads = torch.get_num_threads()
    results = []
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            results.append(products(PackedBits(packed, torch.float32), weight, bias, grad))
    finally:
        torch.set_num_threads(threads)
    one, three = results
    assert torch.equal(one[0], three[0]) and torch.equal(one[1], three[1])


def test_everything_else_sees_plain_bits():
    packed = random_bytes(4, 5, 2)
    states, plain = PackedBits(packed, torch.float32), unpack_bits(packed)
    assert (states.shape, states.dtype, states.dim(), len(states)) == (plain.shape, plain.dtype, 3, 4)
    assert states.is_floating_point() and not states.requires_grad and states._values is None
    assert states.to("cpu") is states and states.to(None, torch.float32) is states
    assert states.to(torch.float64).dtype == torch.float64
    for made in (states + 0, torch.cat([states]), states[:], copy.deepcopy(states), pickle.loads(pickle.dumps(states))):
        assert type(made) is torch.Tensor and torch.equal(made, plain)
    assert np.array_equal(states.numpy(), plain.numpy()) and np.array_equal(np.asarray(states), plain.numpy())
    assert torch.equal(states, plain) and repr(states) == repr(plain)
    assert torch.equal(VaryingInputs(torch.tensor([3, 9]), 16)(states), plain[..., [3, 9]])
    lstm = nn.LSTM(16, 3, batch_first=True)
    assert torch.equal(lstm(states)[0], lstm(plain)[0])


def test_what_is_written_into_unpacked_bits_counts():
    states, layer = PackedBits(random_bytes(30, 2), torch.float32), nn.Linear(16, 3)
    states.mul_(2)
    assert torch.equal(layer(states), layer(states.unpack())) and float(states.unpack().max()) == 2


def test_other_types_of_weights_are_refused_as_by_torch():
    states = PackedBits(random_bytes(30, 2), torch.float32)
    with pytest.raises(RuntimeError, match="dtype"):
        nn.Linear(16, 3, dtype=torch.float64)(states)


@pytest.mark.parametrize("guide", ["exact", "paper", "relaxed"])
@pytest.mark.parametrize("skip_constant", [False, True])
def test_a_training_step_never_unpacks_and_equals_one_on_floats(guide, skip_constant):
    torch.manual_seed(0)
    ram = random_bytes(32, 40, 64)
    ram[..., ::3] = 5
    packed = Trajectories(ram, ram[..., 1] // 64, num_actions=4, packed=True)
    floats, batches = packed.unpack(), []
    for data in (packed, floats):
        torch.manual_seed(0)
        parts = build(None, data, guide=guide, num_options=3, skip_constant=skip_constant)
        trainer = Trainer(parts.model, parts.guide, data, TrainConfig(batch_size=32, progress=False))
        batches.append((trainer, data.batch(torch.arange(32))))
    (ours, batch), (theirs, plain) = batches
    assert type(batch.states) is PackedBits and type(plain.states) is torch.Tensor
    torch.manual_seed(1)
    expected = theirs.step(plain)
    torch.manual_seed(1)
    assert ours.step(batch) == pytest.approx(expected, rel=1e-6)
    assert batch.states._values is None  # type: ignore[attr-defined]
    for one, other in zip(ours.parameters(), theirs.parameters()):
        assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-6)


def test_few_states_and_missing_kernels_are_unpacked(monkeypatch):
    data = Trajectories(random_bytes(4, 300, 64), torch.zeros(4, 300, dtype=torch.long), num_actions=2, packed=True)
    assert type(data.batch(torch.arange(4)).states) is PackedBits
    assert type(data.batch(torch.arange(1)).states) is torch.Tensor
    narrow = Trajectories(random_bytes(4, 300, 8), data.actions, num_actions=2, packed=True)
    assert type(narrow.batch(torch.arange(4)).states) is torch.Tensor
    monkeypatch.setitem(KERNEL.__dict__, "module", None)
    assert type(data.batch(torch.arange(4)).states) is torch.Tensor
