"""Features of states that are computed once while only the layers that read them change."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .shared_product import ReadsStates


def _shared_networks(modules: tuple[nn.Module, ...]) -> list[nn.Module]:
    """State networks that several layers inside ``modules`` read, and that :func:`shared_product` looks for."""
    readers: dict[nn.Module, set[nn.Module]] = {}
    for part in (part for module in modules for part in module.modules()):
        if isinstance(part, ReadsStates):
            network, layer = part.state_layer()
            if network is not None:
                readers.setdefault(network, set()).add(layer)
    return [network for network, layers in readers.items() if len(layers) > 1]


class RememberFeatures:
    """``model(rows, ...)`` that runs its state networks once for each batch, as long as the same one is given again.

    For growth checks, which fit new components on the same rows many times: the layers of components move, the networks
    do not, so results are the same. Nothing is differentiated through the networks. The features of two batches are
    kept for as long as this object is: the last one that something is fitted to, and the last that is only evaluated.

    :param model: reads ``rows.states``
    :param modules: the modules with the networks
    """

    def __init__(self, model: Callable, *modules: nn.Module):
        self.model = model
        self._networks = _shared_networks(modules)
        self._known: dict[tuple[nn.Module, bool], tuple[Tensor, Tensor]] = {}

    def _features(self, network: nn.Module, states: Tensor) -> tuple[Tensor, Tensor]:
        key = network, torch.is_grad_enabled()
        if key not in self._known or self._known[key][0] is not states:
            with torch.no_grad():
                self._known[key] = states, network(states)
        return self._known[key]

    def __call__(self, rows: Any, *args: Any, **kwargs: Any) -> Any:
        states = rows.states
        networks = self._networks if states is rows.states else []  # not if they are converted at every access
        before = [network.__dict__.get("_shared_output") for network in networks]
        try:
            for network in networks:
                network.__dict__["_shared_output"] = self._features(network, states)
            return self.model(rows, *args, **kwargs)
        finally:
            for network, known in zip(networks, before):
                network.__dict__["_shared_output"] = known
