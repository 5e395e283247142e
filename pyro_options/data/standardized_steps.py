"""A store whose values are standardized when they are read."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pyro_options.nn.standardized_inputs import standardized

from .steps import PaddedSteps, Steps

_NUMBERS = 2**22  # numbers to keep standardized in memory, at most


@dataclass(frozen=True, eq=False)
class StandardizedSteps(Steps):
    """The values of another store, each entry less its center and divided by its scale, see :func:`standardized`."""

    source: Steps
    center: Tensor  # (D,)
    scale: Tensor  # (D,), negative to change the sign
    dtype: torch.dtype

    @property
    def lengths(self) -> Tensor:
        return self.source.lengths

    @property
    def width(self) -> int:  # type: ignore[override]
        return self.source.width

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.source.shape

    @property
    def device(self) -> torch.device:
        return self.source.device

    @property
    def is_padded(self) -> bool:  # type: ignore[override]
        return self.source.is_padded

    def _values(self, values: Tensor) -> Tensor:
        found = standardized(values, self.center.to(values.device), self.scale.to(values.device), self.dtype)
        return found.add_(0.0)  # no negative zeros

    def __getitem__(self, index):
        return replace(self, source=self.source[index])

    def cut(self, num_steps):
        return replace(self, source=self.source.cut(num_steps))

    def to(self, device=None, dtype=None):
        return replace(self, source=self.source.to(device), dtype=dtype or self.dtype)

    def padded(self, width=None):
        width = self.width if width is None else width
        inside = torch.arange(width, device=self.device) < self.lengths.unsqueeze(-1)
        return self._values(self.source.padded(width)).mul_(inside.view(*inside.shape, *[1] * len(self.shape)))

    def episode(self, number):
        return self._values(self.source.episode(number))

    def chunks(self, num_steps=None):
        return map(self._values, self.source.chunks(num_steps))

    def in_memory(self) -> Steps:
        """The same values computed once if they are few and padded anyway; otherwise this store itself."""
        few = math.prod((len(self), self.width, *self.shape)) <= _NUMBERS
        if few and self.is_padded and self.source.dtype.is_floating_point:
            return PaddedSteps(self.padded(), self.lengths)
        return self
