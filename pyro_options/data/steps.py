"""Stores of one value per step for episodes of different lengths: padded to one length, or flat with offsets."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

_CHUNK = 2**16  # steps in a chunk, at most
_NUMBERS = 2**20  # numbers in a chunk, about
_ROWS = 256  # padded episodes in a chunk, at most


class Steps(ABC):
    """One value, such as a state, for every step of N episodes.

    :class:`~pyro_options.data.Trajectories` read states and actions through these methods alone, so a store may keep
    its values anywhere. Selecting, cutting and moving need not read them.
    """

    lengths: Tensor  # (N,) steps of each episode
    width: int  # T of the padded form, at least the longest episode
    shape: tuple[int, ...]  # of the value of one step
    dtype: torch.dtype
    device: torch.device
    is_padded: bool = False  # whether the padded form is what is stored

    @abstractmethod
    def __getitem__(self, index: Any) -> "Steps":
        """The episodes at ``index`` (a slice, list or tensor), padded to the same width."""

    @abstractmethod
    def cut(self, num_steps: int) -> "Steps":
        """The first ``num_steps`` steps of every episode."""

    @abstractmethod
    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Steps":
        """The same values on another device or of another type."""

    @abstractmethod
    def padded(self, width: int | None = None) -> Tensor:
        """All values ``(N, width, …)``, zero behind the end of each episode; by default of width T."""

    @abstractmethod
    def episode(self, number: int) -> Tensor:
        """The values of one episode, ``(steps, …)``."""

    @abstractmethod
    def chunks(self, num_steps: int | None = None) -> Iterator[Tensor]:
        """The values of all steps in order, ``(steps, …)`` in parts of about ``num_steps``, by default a few MB."""

    def _chunk_steps(self, num_steps: int | None) -> int:
        return max(1, min(_CHUNK, _NUMBERS // max(1, math.prod(self.shape)))) if num_steps is None else num_steps

    def flattened(self) -> "Steps":
        """The same values with one axis each."""
        return self.map(lambda values: values.flatten(1))

    def map(self, function: Callable[[Tensor], Tensor]) -> "Steps":
        """The same episodes, in memory, with ``function`` of the values ``(steps, …)``."""
        return FlatSteps.joined([function(part) for part in self.chunks()], self.lengths, self.width)

    @property
    def mask(self) -> Tensor:
        """True where a step of the padded form is not padding, ``(N, T)``."""
        return torch.arange(self.width, device=self.device) < self.lengths.unsqueeze(-1)

    @property
    def outline(self) -> Tensor:
        """Shape and type of the padded form, without values."""
        return torch.empty((len(self), self.width, *self.shape), dtype=self.dtype, device="meta")

    def __len__(self) -> int:
        return len(self.lengths)


@dataclass(frozen=True, eq=False)
class PaddedSteps(Steps):
    """Values padded with zeros: fast to select from, and the form that models read."""

    values: Tensor  # (N, T, …)
    lengths: Tensor
    is_padded = True

    @cached_property
    def mask(self) -> Tensor:  # computed once for all who read a batch
        return super().mask

    @property
    def width(self) -> int:  # type: ignore[override]
        return self.values.shape[1]

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.values.shape[2:])

    @property
    def dtype(self) -> torch.dtype:
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        return self.values.device

    def __getitem__(self, index):
        return PaddedSteps(self.values[index], self.lengths[index])

    def cut(self, num_steps):
        return PaddedSteps(self.values[:, :num_steps], self.lengths.clamp(max=num_steps))

    def to(self, device=None, dtype=None):
        return PaddedSteps(self.values.to(device, dtype), self.lengths.to(device))

    def padded(self, width=None):
        return self.values if width is None else self.values[:, :width]

    def episode(self, number):
        return self.values[number, : int(self.lengths[number])]

    def chunks(self, num_steps=None):
        num_steps = self._chunk_steps(num_steps)
        rows = max(1, min(_ROWS, num_steps // self.width))
        for values, mask in zip(self.values.split(rows), self.mask.split(rows)):
            used = values.flatten(0, 1) if bool(mask.all()) else values[mask]
            yield from used.split(num_steps) if rows == 1 else (used,)

    def flattened(self):
        return PaddedSteps(self.values.flatten(2), self.lengths)

    def map(self, function):
        return PaddedSteps(function(self.values), self.lengths)


@dataclass(frozen=True, eq=False)
class FlatSteps(Steps):
    """Values without padding, each episode a run of consecutive steps of an array: they cost what they hold.

    Selecting and cutting change the offsets alone. So does everything else if the arrays are mapped from files: what
    is read of them is what a batch or a chunk needs.
    """

    arrays: tuple[Tensor, ...]  # (steps, …) each
    array: Tensor  # (N,) number of the array that an episode is in
    start: Tensor  # (N,) its first step there
    lengths: Tensor
    width: int
    dtype: torch.dtype
    device: torch.device
    mapped: bool = False  # whether the arrays are files

    @classmethod
    def joined(cls, parts: Sequence[Tensor], lengths: Tensor, width: int | None = None) -> "FlatSteps":
        """In memory, from parts of the flat values in order."""
        values = parts[0] if len(parts) == 1 else torch.cat(list(parts))
        return cls.of(values, lengths, width)

    @classmethod
    def of(cls, values: Tensor, lengths: Tensor, width: int | None = None, mapped: bool = False) -> "FlatSteps":
        """Of one array ``(steps, …)`` of all episodes in order."""
        used = lengths.cpu()
        start = used.cumsum(0) - used
        width = int(used.max()) if width is None else width
        return cls((values,), torch.zeros_like(start), start, lengths, width, values.dtype, values.device, mapped)

    @classmethod
    def of_rows(cls, values: Tensor, lengths: Tensor, mapped: bool = False) -> "FlatSteps":
        """Of a padded array ``(N, T, …)``, whose memory is used as it is."""
        number, width = torch.arange(len(values)), values.shape[1]
        kind = lengths, width, values.dtype, values.device, mapped
        if values.is_contiguous():
            return cls((values.flatten(0, 1),), torch.zeros_like(number), number * width, *kind)
        return cls(tuple(values), number, torch.zeros_like(number), *kind)

    @classmethod
    def of_episodes(cls, episodes: Sequence[Tensor], mapped: bool = False) -> "FlatSteps":
        """Of an array ``(steps, …)`` for each episode, used as they are."""
        lengths = torch.tensor([len(one) for one in episodes])
        number, first = torch.arange(len(episodes)), episodes[0]
        kind = int(lengths.max()), first.dtype, first.device
        return cls(tuple(episodes), number, torch.zeros_like(number), lengths, *kind, mapped)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(self.arrays[0].shape[1:])

    @cached_property
    def _places(self) -> list[tuple[int, int, int]]:
        """Array, first step and end of each episode."""
        ends = self.start + self.lengths.cpu()
        return list(zip(self.array.tolist(), self.start.tolist(), ends.tolist()))

    @cached_property
    def _together(self) -> bool:
        """Whether the episodes follow each other in one array."""
        if not len(self):
            return False
        ends = self.start + self.lengths.cpu()
        return bool((self.array == self.array[0]).all()) and torch.equal(self.start[1:], ends[:-1])

    def __getitem__(self, index):
        at = index.cpu() if isinstance(index, Tensor) else index
        return replace(self, array=self.array[at], start=self.start[at], lengths=self.lengths[index])

    def flattened(self):
        return replace(self, arrays=tuple(values.flatten(1) for values in self.arrays))

    def cut(self, num_steps):
        return replace(self, lengths=self.lengths.clamp(max=num_steps), width=min(self.width, num_steps))

    def to(self, device=None, dtype=None):
        device, dtype = torch.device(device or self.device), dtype or self.dtype
        if device == self.device and dtype == self.dtype:
            return self
        lengths = self.lengths.to(device)
        if self.mapped:  # converted batch by batch
            return replace(self, lengths=lengths, device=device, dtype=dtype)
        return FlatSteps.joined([part.to(device, dtype) for part in self.chunks()], lengths, self.width)

    def padded(self, width=None):
        width = self.width if width is None else width
        if self._together and len(self) * width == int(self.lengths.sum()):  # one long episode is not copied
            array, start, _ = self._places[0]
            values = self.arrays[array][start : self._places[-1][2]].unflatten(0, (len(self), width))
            return values.to(self.device, self.dtype)
        values = self.arrays[0].new_zeros((len(self), width, *self.shape))
        for row, (array, start, end) in zip(values, self._places):
            row[: end - start] = self.arrays[array][start:end]
        return values.to(self.device, self.dtype)

    def episode(self, number):
        array, start, end = self._places[number]
        return self.arrays[array][start:end].to(self.device, self.dtype)

    def chunks(self, num_steps=None):
        num_steps = self._chunk_steps(num_steps)
        if self._together:
            array, start, _ = self._places[0]
            for part in self.arrays[array][start : self._places[-1][2]].split(num_steps):
                yield part.to(self.device, self.dtype)
            return
        run: list[Tensor] = []
        for array, start, end in self._places:
            for part in self.arrays[array][start:end].split(num_steps):
                if run and sum(map(len, run)) + len(part) > num_steps:
                    yield torch.cat(run).to(self.device, self.dtype)
                    run = []
                run.append(part)
        if run:
            yield torch.cat(run).to(self.device, self.dtype)
