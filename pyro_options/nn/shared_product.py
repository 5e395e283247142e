"""Linear layers that read the same states, in one product."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class ReadsStates:
    """Mixin for an ``nn.Module`` that puts a linear layer on what a network makes of the states."""

    def state_layer(self) -> tuple[nn.Module | None, nn.Module]:
        """The network, ``None`` if the layer reads the states themselves, and the layer, with a weight and a bias."""
        raise NotImplementedError

    def read(self, states: Tensor) -> Tensor:
        """What the layer gives, taken from a shared product if there is one."""
        network, layer = self.state_layer()
        shared = _shared(layer, states)
        if shared is not None:
            return shared
        return layer(states if network is None else network(states))


_active: list[tuple[Tensor, dict[nn.Module, Tensor]]] = []  # states, and what layers give on them; the innermost last


def _shared(layer: nn.Module, states: Tensor) -> Tensor | None:
    for known, outputs in reversed(_active):
        if known is states and layer in outputs:
            return outputs[layer]
    return None


@contextmanager
def shared_product(states: Tensor, *modules: nn.Module) -> Iterator[None]:
    """While inside, linear layers within ``modules`` on the same features of ``states`` share one product.

    Nothing else changes. Reading wide features costs as much as multiplying them, so the encoder of a guide comes
    almost for free beside the policies of a model, and terminations do beside both.

    :param states: recognized by identity: pass the very tensor that the modules will see
    """
    groups: dict[nn.Module | None, dict[nn.Module, None]] = {}  # an ordered set of layers by network
    for part in (part for module in modules for part in module.modules()):
        if isinstance(part, ReadsStates):
            network, layer = part.state_layer()
            if _shared(layer, states) is None:
                groups.setdefault(network, {})[layer] = None
    outputs: dict[nn.Module, Tensor] = {}
    for network, layers in groups.items():
        if len(layers) > 1:
            outputs |= _product(states if network is None else network(states), list(layers))
    _active.append((states, outputs))
    try:
        yield
    finally:
        _active.pop()


def _product(features: Tensor, layers: list[nn.Module]) -> dict[nn.Module, Tensor]:
    weights = [layer.weight.flatten(0, -2) for layer in layers]
    biases = [layer.bias.flatten() for layer in layers]
    sizes = [len(bias) for bias in biases]
    padding = -sum(sizes) % 8  # a product with 136 columns is a third faster than one with 133
    weight = torch.cat([*weights, weights[0].new_zeros(padding, features.shape[-1])])
    bias = torch.cat([*biases, biases[0].new_zeros(padding)])
    parts = nn.functional.linear(features, weight, bias).split([*sizes, padding], -1)
    return {layer: part.unflatten(-1, layer.bias.shape) for layer, part in zip(layers, parts)}
