"""State networks."""

from collections.abc import Sequence

from torch import nn


def mlp(in_features: int, hidden: Sequence[int]) -> tuple[nn.Module, int]:
    """Linear layers with ReLU behind each, and the width of what comes out; no layer at all for ``hidden=()``."""
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(in_features, width), nn.ReLU()]
        in_features = width
    return nn.Sequential(*layers), in_features
