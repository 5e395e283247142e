"""Networks of the user's own, and the CNN: shapes, bytes, parts, and what is refused."""

import pytest
import torch
from support.images import Doubled, tiny_network
from torch import nn

from pyro_options.errors import InputError
from pyro_options.nn import CNN, StateNetwork, make_network, state_network


@pytest.mark.parametrize("shape", [(8, 8), (3, 9, 12), (9, 12, 3), (84, 84, 4), (4, 84, 84), (1, 1), (40, 50)])
def test_the_cnn_takes_images_of_any_size_and_layout(shape):
    network = CNN(shape, features=7)
    states = torch.rand(2, 3, *shape)
    found = network(states)
    assert found.shape == (2, 3, 7)
    assert torch.allclose(network(states[1, 2]), found[1, 2], atol=1e-6)  # a single state, too


def test_the_channels_may_come_first_or_last():
    first, last = CNN((3, 9, 12)), CNN((9, 12, 3))
    last.load_state_dict(first.state_dict())
    images = torch.rand(5, 3, 9, 12)
    assert torch.equal(first(images), last(images.movedim(1, -1)))


def test_the_cnn_refuses_what_is_not_an_image():
    with pytest.raises(InputError, match="images as states of a CNN but got states of shape \\(10,\\)"):
        make_network("cnn", (10,), False)


def test_parts_give_the_same_features_and_gradients(monkeypatch):
    network = make_network(tiny_network, (6, 5), True)
    states = torch.randint(256, (4, 5, 30), dtype=torch.uint8)
    weights = torch.randn(4, 5, 4)

    def run():
        network.zero_grad()
        found = network(states)
        (found * weights).sum().backward()
        return found, [p.grad.clone() for p in network.parameters()]

    whole, gradients = run()
    monkeypatch.setattr(state_network, "_NUMBERS", 100)  # three states at a time
    parts, in_parts = run()
    assert torch.allclose(parts, whole) and all(map(torch.allclose, in_parts, gradients))
    with torch.no_grad():
        assert torch.equal(network(states), parts)


def test_bytes_are_divided_by_255_whatever_their_type():
    network = make_network(Doubled(), (3,), True)
    states = torch.tensor([[0, 51, 255]], dtype=torch.uint8)
    expected = torch.tensor([[0.0, 0.4, 2.0]])
    assert torch.allclose(network(states), expected) and torch.allclose(network(states.float()), expected)
    assert torch.equal(make_network(Doubled(), (3,), False)(states.float()), 2 * states.float())


def test_a_module_is_copied_and_a_function_called():
    module = tiny_network((6,))
    made = make_network(module, (6,), False)
    assert made.network is not module and torch.equal(made.network[1].weight, module[1].weight)
    one, other = (make_network("support.images:tiny_network", (6,), False) for _ in range(2))
    assert one.name == "support.images:tiny_network" == make_network(tiny_network, (6,), False).name
    assert not torch.equal(one.network[1].weight, other.network[1].weight)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("resnet", "a state network but got 'resnet'. Pass \"cnn\", a module, a function"),
        (3, "a state network but got 3"),
        ("no_such_module:make", "a function to import from 'no_such_module:make'"),
        ("support.images:missing", "a function to import from"),
        (lambda shape: shape, "to make a module but got tuple"),
        (nn.Linear(7, 3), r"maps \(n, 6\) to \(n, features\) but got RuntimeError"),
        (nn.Unflatten(1, (2, 3)), r"an output \(3, 2, 3\)"),
        (nn.Sequential(nn.Linear(6, 2), nn.BatchNorm1d(2)), "no batch normalization.*LayerNorm or GroupNorm"),
    ],
)
def test_other_networks_are_refused_with_the_fix(network, message):
    with pytest.raises(InputError, match=message):
        make_network(network, (6,), False)


def test_the_contract_is_checked_on_construction():
    made = StateNetwork(nn.Linear(6, 2), (6,), False, "mine")
    assert made.out_features == 2 and made.state_dim == 6 and "mine on 6" in repr(made)
