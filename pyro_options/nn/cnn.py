"""A small convolutional network for pixel grids and frames."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pyro_options.errors import check

_LARGE = 36  # pixels of the shorter side from which on the first layers take strides of 4 and 2


class CNN(nn.Module):
    """Two convolutions and a linear layer: states ``(..., state shape)`` to ``(..., features)``.

    A state is an image ``(H, W)``, ``(C, H, W)`` or ``(H, W, C)``; of the first and the last axis, the shorter one is
    that of the channels. From 36 pixels on, the convolutions are those of Mnih et al. (2013), 8 x 8 with stride 4 and
    4 x 4 with stride 2; on smaller grids they are 3 x 3 and the second has stride 2.

    :param state_shape: of one state
    :param features: size of the output
    """

    def __init__(self, state_shape: Sequence[int], features: int = 64):
        super().__init__()
        shape = tuple(state_shape)
        fix = 'Pass arrays (N, T, H, W), (N, T, C, H, W) or (N, T, H, W, C), or leave network="cnn" out.'
        check(len(shape) in (2, 3) and min(shape) >= 1, "images as states of a CNN", f"states of shape {shape}", fix)
        self.channels_last = len(shape) == 3 and shape[-1] < shape[0]
        channels, height, width = (1, *shape) if len(shape) == 2 else shape
        if self.channels_last:
            height, width, channels = shape
        first, second = ((8, 4, 0), (4, 2, 0)) if min(height, width) >= _LARGE else ((3, 1, 1), (3, 2, 1))
        self.state_shape = shape
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels, 16, *first), nn.ReLU(), nn.Conv2d(16, 32, *second), nn.ReLU(), nn.Flatten()
        )
        with torch.no_grad():
            size = self.convolutions(torch.zeros(1, channels, height, width)).shape[-1]
        self.output = nn.Sequential(nn.Linear(size, features), nn.ReLU())

    def forward(self, states: Tensor) -> Tensor:
        lead = states.shape[: -len(self.state_shape)]
        images = states.reshape(math.prod(lead), *self.state_shape)
        if len(self.state_shape) == 2:
            images = images.unsqueeze(1)
        elif self.channels_last:
            images = images.movedim(-1, 1)
        return self.output(self.convolutions(images)).unflatten(0, lead or (1,)).reshape(*lead, -1)
