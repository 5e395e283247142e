"""Stored episodes: their arrays, what is read off them, and how they are grouped into batches."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pyro_options.errors import InputError, check_count

from .batching import bucketed
from .bits import unpack_bits
from .ingestion import is_ragged
from .notebook import trajectories_html
from .steps import Steps

_FIELDS = (
    *("state_steps", "action_steps", "num_actions", "population", "dataset_size", "packed", "action_bounds"),
    *("state_names", "action_names", "episode_names", "state_shape"),
)
_TOGETHER = 2**16  # padded steps to evaluate at a time
_NUMBERS = 2**22  # numbers of the states of those steps, if ragged
_WIDE_NUMBERS = 2**26  # numbers of the states of those steps in any case


@dataclass(frozen=True, init=False, repr=False, eq=False)
class StoredEpisodes:
    """The arrays of N episodes and what is read off them; :class:`~pyro_options.data.Trajectories` makes them."""

    state_steps: Steps  # values (D,), or (B,) if packed
    action_steps: Steps | None
    num_actions: int | tuple[int, ...] | None
    population: int
    dataset_size: int  # episodes in the data set that these are a minibatch of
    packed: bool
    action_bounds: Tensor | None
    state_names: tuple[str, ...] | None  # of the entries of a state, of its bytes if packed
    action_names: tuple[str, ...] | None  # of discrete actions; of the dimensions of other actions
    episode_names: tuple[str, ...] | None  # labels of the episodes in the files that they come from
    state_shape: tuple[int, ...] | None  # of a state with several axes, such as an image; stores have one axis

    def _set(
        self,
        state_steps: Steps,
        action_steps: Steps | None,
        num_actions: int | tuple[int, ...] | None = None,
        population: int | None = None,
        packed: bool = False,
        dataset_size: int | None = None,
        action_bounds: Tensor | None = None,
        state_names: tuple[str, ...] | None = None,
        action_names: tuple[str, ...] | None = None,
        episode_names: tuple[str, ...] | None = None,
        state_shape: tuple[int, ...] | None = None,
    ) -> None:
        population = len(state_steps) if population is None else population
        arrays = state_steps, action_steps, num_actions, population, dataset_size or population, packed, action_bounds
        values = *arrays, state_names, action_names, episode_names, state_shape
        for name, value in zip(_FIELDS, values):
            object.__setattr__(self, name, value)

    def _replace(self, **changes) -> Self:
        """The same data with some fields replaced, not validated again."""
        new = object.__new__(type(self))
        new._set(**({name: getattr(self, name) for name in _FIELDS} | changes))
        return new

    def _stores(self, change: Callable[[Steps], Steps], **changes: Any) -> Self:
        """The same data with ``change`` of both stores."""
        actions = None if self.action_steps is None else change(self.action_steps)
        return self._replace(state_steps=change(self.state_steps), action_steps=actions, **changes)

    @property
    def lengths(self) -> Tensor:
        """Number of steps of each episode, ``(N,)``."""
        return self.state_steps.lengths

    @property
    def stored(self) -> Tensor:
        """States as they are stored, padded, ``(N, T, D)``, or ``(N, T, B)`` if packed."""
        return self.state_steps.padded()

    @property
    def frames(self) -> bool:
        """Whether states are images of bytes, which stay bytes in batches: a state network converts them in parts."""
        return self.state_shape is not None and self.state_steps.dtype == torch.uint8

    @property
    def states(self) -> Tensor:
        """Floating-point states ``(N, T, D)``; bytes are converted on every access, those of :attr:`frames` are not."""
        return self.stored if self.frames else self.as_floats(self.stored)

    @property
    def actions(self) -> Tensor | None:
        """Actions ``(N, T)`` or ``(N, T, A)``, ``None`` if there are none."""
        return None if self.action_steps is None else self.action_steps.padded()

    def as_floats(self, stored: Tensor) -> Tensor:
        """Stored values of states as floating-point numbers."""
        if self.packed:
            return unpack_bits(stored)
        return stored if stored.is_floating_point() else stored.to(torch.get_default_dtype())

    def state_chunks(self) -> Iterator[Tensor]:
        """Floating-point states of all steps in order, ``(steps, D)`` in parts of limited size."""
        return map(self.as_floats, self.state_steps.chunks())

    @property
    def discrete(self) -> bool:
        """Whether actions are integers: one a step, or several."""
        return self.num_actions is not None if self.action_steps is None else not self._action_type.is_floating_point

    @property
    def _action_type(self) -> torch.dtype:
        return self.given_actions().dtype

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.state_steps.device

    @property
    def mask(self) -> Tensor:
        """True where a step is not padding, ``(N, T)``."""
        return self.state_steps.mask

    @property
    def num_steps(self) -> int:
        """Total number of steps, without padding."""
        return int(self.lengths.sum())

    @property
    def state_dim(self) -> int:
        """Size of a state D; number of bits if packed."""
        return self.state_steps.shape[-1] * (8 if self.packed else 1)

    @property
    def action_dim(self) -> int:
        """Size of an encoded action A: number of discrete actions, or dimensions of a continuous action."""
        if self.num_actions is not None:
            return sum(self.num_actions) if isinstance(self.num_actions, tuple) else self.num_actions
        return self.given_actions().shape[-1]

    def given_actions(self) -> Steps:
        """The store of the actions; an error if there are none."""
        if self.action_steps is None:
            raise InputError("Expected demonstrations with actions but got none. Use them before without_actions().")
        return self.action_steps

    def encode(self, actions: Tensor) -> Tensor:
        """Actions of these episodes ``(…)`` or ``(…, A)``, one-hot if discrete (several side by side), ``(…, A)``."""
        if isinstance(self.num_actions, tuple):
            actions = torch.cat([one_hot(actions[..., d], n) for d, n in enumerate(self.num_actions)], -1)
        elif self.num_actions is not None:
            actions = one_hot(actions, self.num_actions)
        plain = self.state_steps.dtype.is_floating_point
        return actions.to(self.state_steps.dtype if plain else torch.get_default_dtype())

    def encoded_actions(self) -> Tensor:
        """Actions, one-hot if discrete (side by side if several), ``(N, T, A)``."""
        return self.encode(self.given_actions().padded())

    def steps(self) -> Tensor:
        """States and encoded actions side by side, ``(N, T, D + A)``."""
        return torch.cat([self.states, self.encoded_actions()], -1)

    def __len__(self) -> int:
        return len(self.state_steps)

    @property
    def ragged(self) -> bool:
        """Whether episodes differ so much in length that batches are made of similar ones."""
        return is_ragged(self.lengths, self.state_steps.width) and not self.state_steps.is_padded

    @property
    def typical_length(self) -> int:
        """Padded steps of an episode in a batch: T, or about the mean length if episodes are ragged."""
        return math.ceil(self.num_steps / len(self)) if self.ragged else self.state_steps.width

    def rows_together(self, num_steps: int = _TOGETHER) -> int:
        """Number of episodes, at least one, with about ``num_steps`` padded steps: bounds the memory of a batch."""
        return max(1, min(num_steps, _WIDE_NUMBERS // self.state_dim) // self.typical_length)

    def _groups(self, size: int, generator: torch.Generator | None = None, max_steps: float = math.inf) -> list[Tensor]:
        """Indices of the episodes of each batch."""
        check_count(size, "a batch size")
        if self.ragged:
            steps = math.ceil(size * self.num_steps / len(self))
            return bucketed(self.lengths.cpu(), int(min(steps, max_steps)), generator)
        order = torch.arange(len(self)) if generator is None else torch.randperm(len(self), generator=generator)
        return list(order.split(size))

    def batch_indices(self, size: int, generator: torch.Generator | None = None) -> list[tuple[Tensor, int]]:
        """Indices of the episodes of each of the :meth:`minibatches`, and the number of episodes it stands for."""
        groups, ragged = self._groups(size, generator), self.ragged
        return [(index, len(groups) * len(index) if ragged else len(self)) for index in groups]

    def num_batches(self, size: int) -> int:
        """Number of :meth:`minibatches` of this size."""
        return len(self._groups(size)) if self.ragged else math.ceil(len(self) / size)

    def groups(self, size: int | None = None) -> list[Tensor]:
        """Indices of the episodes of each batch of an evaluation, in order, or by length if ragged.

        :param size: see :meth:`rows_together`; by default all episodes, or as many as fit into memory if ragged
        """
        max_steps = min(_TOGETHER, _NUMBERS // self.state_dim)
        return self._groups(len(self) if size is None else size, max_steps=max_steps)

    def checksum_fields(self) -> dict[str, Any]:
        """All fields, those of arrays as tensors or as iterators over parts of them."""
        stores = {"stored": self.state_steps, "actions": self.action_steps}
        arrays = {
            name: steps.padded() if steps is not None and steps.is_padded else steps and steps.chunks()
            for name, steps in stores.items()
        }
        rest = {"num_actions": self.num_actions, "population": self.population, "packed": self.packed}
        bounds = {} if self.action_bounds is None else {"action_bounds": self.action_bounds}
        shape = {} if self.state_shape is None else {"state_shape": self.state_shape}
        return arrays | {"lengths": self.lengths} | rest | bounds | shape

    def _repr_html_(self) -> str:
        return trajectories_html(self)

    def __repr__(self) -> str:
        counts = self.num_actions
        number = " × ".join(map(str, counts)) if isinstance(counts, tuple) else counts
        kind = "no actions" if self.action_steps is None else f"{number} discrete actions"
        if self.action_steps is not None and not self.discrete:
            kind = f"{self.action_steps.shape[-1]} continuous action dimensions"
        shortest, longest = int(self.lengths.min()), int(self.lengths.max())
        lengths = f"{longest} steps" if shortest == longest else f"{shortest} to {longest} steps"
        size = " × ".join(map(str, self.state_shape or (self.state_dim,)))
        states = f"{size} packed bits" if self.packed else f"{size} × {self.state_steps.dtype}"
        whole = self.dataset_size == len(self)
        episodes = str(len(self)) if whole else f"minibatch of {len(self)} out of {self.dataset_size}"
        return f"Trajectories({episodes} episodes of {lengths}, states {states}, {kind})"
