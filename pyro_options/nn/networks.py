"""Multilayer perceptrons, and the output size of any network."""

from collections.abc import Sequence

import torch
from torch import nn

from pyro_options.errors import check_count


def mlp(in_features: int, hidden: Sequence[int]) -> tuple[nn.Module, int]:
    """Linear layers, each followed by a ReLU, and their output size; an empty ``Sequential`` for ``hidden=()``."""
    layers: list[nn.Module] = []
    for width in hidden:
        check_count(width, "every width in hidden")
        layers += [nn.Linear(in_features, width), nn.ReLU()]
        in_features = width
    return nn.Sequential(*layers), in_features


def output_size(network: nn.Module, in_features: int) -> int:
    """The output size of a network on inputs ``(..., in_features)``."""
    like = next(network.parameters(), torch.empty(0))
    with torch.no_grad():
        return network(torch.zeros(1, 1, in_features, dtype=like.dtype, device=like.device)).shape[-1]
