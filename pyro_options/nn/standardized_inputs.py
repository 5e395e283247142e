"""Standardization of the state entries that vary in the demonstrations."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyro_options.errors import check

from .varying_inputs import VaryingInputs, used_rows

_ROWS = 256  # episodes to process at a time

#: standardized values are multiples of this. The rounding errors of a change of units are far smaller in double
#: precision, so that data in any units become the same numbers, bit for bit. Training amplifies the least difference
#: until it decides between local optima
GRID = 2.0**-18

_NUMBERS = 2**18  # numbers to standardize at once


def standardized(values: Tensor, center: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """``(values - center) / scale``, rounded to a multiple of :data:`GRID`.

    Computed in double precision, but not for integers, such as bytes of images: they are exact in any precision.

    :param values: ``(..., D)``
    :param center: ``(D,)``
    :param scale: ``(D,)``, not zero
    :param dtype: of the result
    """
    if not values.is_floating_point():
        return values.to(dtype).sub_(center.to(dtype)).div_(scale.to(dtype))
    if values.requires_grad:  # rounding has no gradient
        return ((values.double() - center) / scale).to(dtype)
    if values.device.type != "cpu" or values.numel() <= _NUMBERS:
        return _on_grid(values, center, scale).to(dtype)
    found = torch.empty(values.shape, dtype=dtype)
    rows = max(1, _NUMBERS // values.shape[-1])  # in parts: double precision takes several times the memory
    for part, place in zip(values.flatten(end_dim=-2).split(rows), found.view(-1, values.shape[-1]).split(rows)):
        place.copy_(_on_grid(part, center, scale))
    return found


def _on_grid(values: Tensor, center: Tensor, scale: Tensor) -> Tensor:
    """Standardized values in double precision, rounded to multiples of :data:`GRID`."""
    return values.double().sub(center).div_(scale).div_(GRID).round_().mul_(GRID)


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


def units(values: Any, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Center and scale that standardize each entry, both ``(D,)`` in double precision.

    Mean and standard deviation; of entries with two values these, which become 0 and 1 (0 and 1 themselves stay as they
    are); of other constant entries the value and 1.

    :param values: ``(N, T, D)``, or an object whose ``chunks()`` iterates over parts ``(steps, D)`` of them
    :param mask: ``(N, T)``, unless there are chunks
    """
    center, scale = moments(values, mask)
    low, high = torch.full_like(center, torch.inf), torch.full_like(center, -torch.inf)
    for rows in used_rows(values, mask, _ROWS):
        low, high = torch.minimum(low, rows.double().amin(0)), torch.maximum(high, rows.double().amax(0))
    two = torch.ones_like(low, dtype=torch.bool)
    for rows in used_rows(values, mask, _ROWS):
        two &= ((rows.double() == low) | (rows.double() == high)).all(0)
    constant, bits = low == high, ((low == 0) | (low == 1)) & ((high == 0) | (high == 1))
    center = torch.where(two, low.masked_fill(bits, 0.0), center)
    scale = torch.where(two, (high - low).masked_fill(constant, 1.0), scale)
    return center, scale.masked_fill(scale == 0, 1.0)


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

    So the results do not depend on the units of the entries, see :func:`standardized`. Entries with two values (bits,
    one-hot codes) become 0 and 1.

    :param index: the entries to keep, in increasing order
    :param state_dim: size of a whole state
    :param center: subtracted from the entries kept, ``(len(index),)``
    :param scale: positive divisors, ``(len(index),)``
    :param dtype: of the output, by default torch's default
    """

    center: Tensor
    scale: Tensor
    like: Tensor

    def __init__(self, index: Tensor, state_dim: int, center: Tensor, scale: Tensor, dtype: torch.dtype | None = None):
        super().__init__(index, state_dim)
        for name, value in (("center", center), ("scale", scale)):
            check(value.shape == index.shape, f"one {name} for each of {len(index)} entries", tuple(value.shape))
        check(bool((scale > 0).all()) and bool(scale.isfinite().all()), "scales > 0 and finite", scale.tolist())
        self.register_buffer("center", center.double())
        self.register_buffer("scale", scale.double())
        self.register_buffer("like", torch.empty(0, dtype=dtype), persistent=False)  # follows the type of the module

    @classmethod
    def fitted(cls, selected: VaryingInputs, states: Any, mask: Tensor | None = None) -> VaryingInputs:
        """Standardizes the entries that ``selected`` keeps; returns ``selected`` if all of them are 0 or 1.

        :param states: ``(N, T, D)``, or an object whose ``chunks()`` iterates over parts ``(steps, D)`` of them
        :param mask: ``(N, T)``, unless there are chunks
        """
        return cls.with_units(selected, *units(_Selected(selected, states, mask)))

    @classmethod
    def with_units(cls, selected: VaryingInputs, center: Tensor, scale: Tensor) -> VaryingInputs:
        """Standardizes the entries that ``selected`` keeps; returns ``selected`` if that changes none of them."""
        if bool(((center == 0) & (scale == 1)).all()):
            return selected
        return cls(selected.index, selected.state_dim, center, scale)

    def forward(self, states: Tensor) -> Tensor:
        """``(..., D) -> (..., len(index))``."""
        return standardized(super().forward(states), self.center, self.scale, self.like.dtype)
