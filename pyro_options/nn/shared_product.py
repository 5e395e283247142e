"""One matrix product for all linear layers that read the same states."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from .packed_bits import PackedBits


class ReadsStates:
    """Mixin for an ``nn.Module`` that applies a linear layer to states, or to the features of a state network."""

    #: states and the layer's output on them, inside :func:`shared_product`
    _computed: tuple[Tensor, Tensor] | None = None

    def state_layer(self) -> tuple[nn.Module | None, nn.Module]:
        """The state network, ``None`` if the layer reads the states themselves, and the layer, with weight and bias."""
        raise NotImplementedError

    def read(self, states: Tensor) -> Tensor:
        """The output of the layer, taken from a shared product if there is one."""
        if self._computed is not None and self._computed[0] is states:
            return self._computed[1]
        network, layer = self.state_layer()
        return layer(states if network is None else network(states))


def features(network: nn.Module, states: Tensor) -> Tensor:
    """The output of a network on states, taken from a shared product if one has computed it."""
    computed = network.__dict__.get("_shared_output")
    return computed[1] if computed is not None and computed[0] is states else network(states)


@contextmanager
def shared_product(states: Tensor, *modules: nn.Module) -> Iterator[None]:
    """A context in which linear layers inside ``modules`` that read the same features of ``states`` share one product.

    Results are the same. With wide features the product is limited by memory bandwidth, so the encoder of a guide and
    the terminations cost almost nothing beside the policies of a model. The outputs are cached on the layers until the
    end of the block.

    :param states: compared by identity: pass the same tensor object to the modules
    """
    groups: dict[nn.Module | None, dict[nn.Module, ReadsStates]] = {}  # by network, then by layer
    for part in (part for module in modules for part in module.modules()):
        if isinstance(part, ReadsStates) and (part._computed is None or part._computed[0] is not states):
            network, layer = part.state_layer()
            groups.setdefault(network, {})[layer] = part
    sharing: list[tuple[ReadsStates, tuple[Tensor, Tensor] | None]] = []
    networks: list[tuple[nn.Module, tuple[Tensor, Tensor] | None]] = []
    try:
        for network, readers in groups.items():
            if len(readers) > 1:
                inputs = states if network is None else features(network, states)
                if network is not None:
                    networks.append((network, network.__dict__.get("_shared_output")))
                    network.__dict__["_shared_output"] = (states, inputs)
                outputs = _product(inputs, list(readers))
                for layer, part in readers.items():
                    sharing.append((part, part._computed))
                    part.__dict__["_computed"] = (states, outputs[layer])
        yield
    finally:
        for part, before in reversed(sharing):
            part.__dict__["_computed"] = before
        for network, known in reversed(networks):
            network.__dict__["_shared_output"] = known


def _product(features: Tensor, layers: list[nn.Module]) -> dict[nn.Module, Tensor]:
    """The output of each layer. During a fit of some components, those of the others are computed once on the CPU.

    (Elsewhere, more launches cost more than more columns.) A layer says by ``current_fit`` which components move.
    """
    fits: list[Any] = [getattr(layer, "current_fit", None) for layer in layers]
    known = [fit.known[1] for fit in fits if fit is not None and fit.known is not None and fit.known[0] is features]
    if len(known) == len(layers):
        index = fits[0].index
        # a few columns of packed bits cost as much as many
        plain = features.unpack() if isinstance(features, PackedBits) else features
        parts = _linear(plain, [(layer.weight[index], layer.bias[index]) for layer in layers])
        return {layer: whole.index_copy(-2, index, part) for layer, whole, part in zip(layers, known, parts)}
    outputs = _linear(features, [(layer.weight, layer.bias) for layer in layers])
    if features.device.type == "cpu" and torch.is_grad_enabled():  # not rows that only judge in between
        for fit, output in zip(fits, outputs):
            if fit is not None:
                fit.known = features, output.detach()
    return dict(zip(layers, outputs))


def _linear(features: Tensor, layers: list[tuple[Tensor, Tensor]]) -> list[Tensor]:
    """The outputs of layers with these weights ``(..., W, D)`` and biases ``(..., W)``, by one matrix product."""
    weights = [weight.flatten(0, -2) for weight, _ in layers]
    biases = [bias.flatten() for _, bias in layers]
    sizes = [len(bias) for bias in biases]
    # a product with 136 columns is a third faster than one with 133 on the CPU; elsewhere zeros cost launches
    padding = -sum(sizes) % 8 if features.device.type == "cpu" else 0
    if padding:
        weights.append(weights[0].new_zeros(padding, features.shape[-1]))
        biases.append(biases[0].new_zeros(padding))
        sizes.append(padding)
    parts = nn.functional.linear(features, torch.cat(weights), torch.cat(biases)).split(sizes, -1)
    return [part.unflatten(-1, bias.shape) for part, (_, bias) in zip(parts, layers)]
