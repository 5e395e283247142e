"""Standardization of the state entries that vary in the demonstrations."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyro_options.errors import check

from .varying_inputs import VaryingInputs, used_rows

_ROWS = 256  # episodes to process at a time


def moments(values: Any, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each entry over the unpadded steps, both ``(D,)`` in double precision.

    In two passes, to avoid cancellation if the mean is much larger than the standard deviation.

    :param values: ``(N, T, D)``, or an object whose ``chunks()`` iterates over parts ``(steps, D)`` of them
    :param mask: ``(N, T)``, unless there are chunks
    """
    count, total = 0, torch.zeros(values.shape[-1], dtype=torch.float64, device=values.device)
    for rows in used_rows(values, mask, _ROWS):
        total += rows.double().sum(0)
        count += len(rows)
    mean, squares = total / count, torch.zeros_like(total)
    for rows in used_rows(values, mask, _ROWS):
        squares += (rows.double() - mean).square().sum(0)
    return mean, torch.sqrt(squares / count)


def binary_entries(values: Any, mask: Tensor | None = None) -> Tensor:
    """Which entries are 0 or 1 at every unpadded step, booleans ``(D,)``."""
    binary = torch.ones(values.shape[-1], dtype=torch.bool, device=values.device)
    for rows in used_rows(values, mask, _ROWS):
        binary &= ((rows == 0) | (rows == 1)).all(0)
    return binary


@dataclass(frozen=True)
class _Selected:
    """Chunks of the selected entries of states."""

    selected: VaryingInputs
    states: Any
    mask: Tensor | None

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.selected.out_features,)

    @property
    def device(self) -> torch.device:
        return self.states.device

    def chunks(self) -> Iterator[Tensor]:
        return (self.selected(rows) for rows in used_rows(self.states, self.mask, _ROWS))


class StandardizedInputs(VaryingInputs):
    """Selects the entries of a state that vary and scales each to mean 0, standard deviation 1 on the demonstrations.

    So the results do not depend on the units of the entries. Entries that are 0 or 1 (bits, one-hot codes) are not
    scaled.

    :param index: the entries to keep, in increasing order
    :param state_dim: size of a whole state
    :param center: subtracted from the entries kept, ``(len(index),)``
    :param scale: positive divisors, ``(len(index),)``
    """

    center: Tensor
    scale: Tensor

    def __init__(self, index: Tensor, state_dim: int, center: Tensor, scale: Tensor):
        super().__init__(index, state_dim)
        for name, value in (("center", center), ("scale", scale)):
            check(value.shape == index.shape, f"one {name} for each of {len(index)} entries", tuple(value.shape))
        check(bool((scale > 0).all()) and bool(scale.isfinite().all()), "scales > 0 and finite", scale.tolist())
        self.register_buffer("center", center.clone())
        self.register_buffer("scale", scale.clone())

    @classmethod
    def fitted(cls, selected: VaryingInputs, states: Any, mask: Tensor | None = None) -> VaryingInputs:
        """Standardizes the entries that ``selected`` keeps; returns ``selected`` if all of them are 0 or 1.

        :param states: ``(N, T, D)``, or an object whose ``chunks()`` iterates over parts ``(steps, D)`` of them
        :param mask: ``(N, T)``, unless there are chunks
        """
        kept = _Selected(selected, states, mask)
        binary = binary_entries(kept)
        if bool(binary.all()):
            return selected
        center, scale = moments(kept)
        plain = binary | (scale == 0)
        dtype = torch.get_default_dtype()
        center, scale = center.masked_fill(binary, 0.0).to(dtype), scale.masked_fill(plain, 1.0).to(dtype)
        return cls(selected.index, selected.state_dim, center, scale)

    def forward(self, states: Tensor) -> Tensor:
        """``(..., D) -> (..., len(index))``."""
        kept = super().forward(states)
        if kept.dtype == self.center.dtype:  # a copy already: two more would add up with wide states
            return kept.sub_(self.center).div_(self.scale)
        return (kept - self.center) / self.scale
