"""Layers that share one matrix product have the outputs and gradients of separate layers."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from pyro_options.data import Trajectories
from pyro_options.discovery import MethodConfig, build
from pyro_options.growth.growable import fitting
from pyro_options.infer import TrainConfig, Trainer
from pyro_options.nn import StateEmbedding, VaryingInputs, shared_product
from pyro_options.nn.packed_bits import PackedBits, unpacked
from pyro_options.options import CategoricalPolicy, Termination

D = 12


def readers(kind):
    """A policy, a termination and an embedding on the same features of a state."""
    inputs = VaryingInputs(torch.tensor([1, 4, 5]), D) if kind == "varying" else None
    return (
        CategoricalPolicy(D, 3, 4, network=inputs),
        Termination(D, 3, network=inputs),
        StateEmbedding(D, 5, inputs),
    )


def outputs(modules, states):
    policy, termination, embedding = modules
    return policy(states).logits, termination(states), embedding(states)


@pytest.mark.parametrize("kind", ["whole", "varying"])
def test_equals_layers_on_their_own(kind):
    modules, states = [module.double() for module in readers(kind)], torch.randn(2, 6, D, dtype=torch.float64)
    parameters = [p for module in modules for p in module.parameters()]

    def results():
        values = outputs(modules, states)
        return [*values, *torch.autograd.grad(sum((value**2).sum() for value in values), parameters)]

    alone = results()
    with shared_product(states, *modules):
        together = results()
    for one, other in zip(alone, together):
        assert_close(one, other)


def memory(modules, states):
    """Where the linear layers of the modules leave their outputs."""
    values = [module.read(states) for module in modules]  # all at once, so that no memory is used again
    return {value.untyped_storage().data_ptr() for value in values}


def test_the_outputs_of_all_layers_are_parts_of_one_product():
    modules, states = readers("whole"), torch.randn(2, 6, D)
    with shared_product(states, nn.ModuleList(modules)):
        assert len(memory(modules, states)) == 1
        assert len(memory(modules, states.clone())) == 3  # other states, even if they hold the same numbers
    assert len(memory(modules, states)) == 3


@pytest.mark.parametrize("packed", [False, True])
def test_a_fit_of_some_components_computes_theirs_alone(packed, monkeypatch):
    """With the same outputs as without it, also on other rows in between, and with their gradients."""
    torch.manual_seed(0)
    policy, termination, index = CategoricalPolicy(1024, 5, 3), Termination(1024, 5), [1, 3]
    weights = [part for layer in (policy.heads, termination.heads) for part in (layer.weight, layer.bias)]
    data = torch.randint(0, 256, (2, 1500, 128), dtype=torch.uint8)
    first, second = (PackedBits(one, torch.float32) if packed else unpacked(one, torch.float32) for one in data)

    def results(states):
        with shared_product(states, policy, termination):
            values = policy.outputs(states), termination(states)
        return *values, *torch.autograd.grad(sum((value**2).sum() for value in values), weights)

    with fitting([policy, termination], index):
        for step, states in enumerate((first, first, second, first, first)):
            with torch.no_grad():
                for part in weights:
                    part[index] += 0.1 * torch.randn_like(part[index])
            found = results(states)
            with monkeypatch.context() as patch:
                patch.setattr(policy.heads, "current_fit", None)
                patch.setattr(termination.heads, "current_fit", None)
                expected = results(states)
            for one, other in zip(found[:2], expected[:2]):
                assert_close(one, other, rtol=1e-4, atol=1e-4)
            for one, other in zip(found[2:], expected[2:]):
                assert_close(one[index], other[index], rtol=1e-4, atol=1e-2)
                assert (one[0] == 0).all() == (step in (1, 4))  # nothing but the components that move
    assert policy.heads.current_fit is None and termination.heads.current_fit is None


def test_the_product_is_forgotten_after_an_error_inside():
    modules, states = readers("whole"), torch.randn(2, 6, D)
    with pytest.raises(RuntimeError, match="inside"), shared_product(states, *modules):
        raise RuntimeError("inside")
    with torch.no_grad():
        modules[0].heads.bias += 1.0
    assert_close(modules[0](states).logits, modules[0].heads(states))


@pytest.mark.parametrize("skip_constant", [True, False])
def test_wide_states_are_embedded_and_every_parameter_learns(skip_constant):
    states = torch.randint(2, (10, 6, 80)).float()
    data = Trajectories(states, states[..., 1].long(), num_actions=2)
    method = build("options-paper", data, num_options=2, skip_constant=skip_constant)
    assert method.guide.encoder.inputs.out_features == 12
    assert method.guide.encoder.lstm.input_size == 12 + 2
    trainer = Trainer(method.model, method.guide, data, TrainConfig(epochs=1, progress=False, device="cpu"))
    before = {name: p.detach().clone() for name, p in method.guide.encoder.named_parameters()}
    trainer.run()
    assert [name for name, p in method.guide.encoder.named_parameters() if torch.equal(p, before[name])] == []


def test_an_embedding_of_zero_units_is_none():
    data = Trajectories(torch.randn(4, 6, 80), torch.randint(2, (4, 6)))
    assert build("options-paper", data, embedding=0, skip_constant=False).guide.encoder.lstm.input_size == 80 + 2


@pytest.mark.parametrize("units", [0, -1])
def test_an_embedding_without_units_is_refused(units):
    with pytest.raises(ValueError, match="units >= 1"):
        StateEmbedding(3, units)
    with pytest.raises(ValueError, match="embedding >= 0"):
        MethodConfig(embedding=-1)
