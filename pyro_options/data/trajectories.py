"""Demonstrations: episodes of different lengths, flat or padded and masked."""

import math
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import one_hot

from pyro_options.errors import InputError, check, check_count

from .batching import bucketed
from .bits import unpack_bits
from .ingestion import as_integers, episode_arrays, flat_store, integers, is_ragged, padded_store, validation_rows
from .steps import FlatSteps, PaddedSteps, Steps
from .trajectory_file import read_trajectories, write_trajectories
from .validation import (
    as_tensor,
    is_mapped,
    validate_actions,
    validate_bounds,
    validate_layout,
    validate_lengths,
    validate_states,
)

_FIELDS = ("state_steps", "action_steps", "num_actions", "population", "dataset_size", "packed", "action_bounds")
_TOGETHER = 2**16  # padded steps to evaluate at a time
_NUMBERS = 2**22  # numbers of the states of those steps, if ragged


def _counts(num_actions: int | Sequence[int] | None) -> int | tuple[int, ...] | None:
    """Numbers of actions: one, or a tuple of those of each dimension."""
    return tuple(map(int, num_actions)) if isinstance(num_actions, Sequence | np.ndarray) else num_actions


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Trajectories:
    """N episodes of at most T steps: states and actions, and the length of each episode.

    ``states``, ``actions`` and ``mask`` are padded to T steps. If that would more than double their size, they are
    stored flat and padded when they are asked for: training, growth and scoring ask for batches of episodes of similar
    length alone. Arrays mapped from files (``numpy.memmap``) are never copied whole; selecting and splitting them
    copies nothing.

    Bytes stay bytes in ``stored``; ``states`` and minibatches convert them, packed ones to bits, others to numbers.
    Atari RAM takes 32 times less memory this way.

    :param states: ``(N, T, D)`` floating point or bytes, or ``(N, T, B)`` bytes if packed; the state *before* each
        action
    :param actions: ``(N, T)`` integers, ``(N, T, A)`` integers (several a step: MultiDiscrete), or ``(N, T, A)``
        floating point; ``None`` to sample them from a model
    :param lengths: number of steps of each episode ``(N,)``, by default T; the padding is set to zero and never used
    :param num_actions: number of discrete actions, by default the largest action plus one; a tuple of A numbers for
        ``(N, T, A)`` integers; ``None`` if continuous
    :param population: number of episodes that these stand for in a minibatch, by default N; models scale the
        log-likelihood by population / N
    :param packed: whether each byte of the states holds eight bits, the most significant first
    :param action_bounds: lower and upper bounds of continuous actions where the action space is known, ``(2, A)``
    :param validate: check every value; turned off for views of data that were checked already
    :param copy: copy the arrays; pass ``False`` for arrays that will not be modified, to save memory
    """

    state_steps: Steps  # values (D,), or (B,) if packed
    action_steps: Steps | None
    num_actions: int | tuple[int, ...] | None
    population: int
    dataset_size: int  # episodes in the data set that these are a minibatch of
    packed: bool
    action_bounds: Tensor | None

    def __init__(
        self,
        states: ArrayLike,
        actions: ArrayLike | None,
        lengths: ArrayLike | None = None,
        num_actions: int | Sequence[int] | None = None,
        population: int | None = None,
        packed: bool = False,
        validate: bool = True,
        copy: bool = True,
        action_bounds: ArrayLike | None = None,
    ):
        copy = copy and validate
        stored = as_tensor(states, "states")
        validate_layout(stored, packed)
        N, T, _ = stored.shape
        used = torch.full((N,), T, device=stored.device) if lengths is None else integers(lengths, "lengths", copy)
        done = None if actions is None else as_tensor(actions, "actions")
        kept: Steps | None = None
        if validate:
            validate_lengths(used, N, T)
            if done is not None:
                check(done.shape[:2] == (N, T), f"actions of shape ({N}, {T}, …)", tuple(done.shape))
                kept = as_integers(padded_store(done.detach(), used, is_mapped(actions), copy))
            seen = padded_store(stored.detach(), used, is_mapped(states), copy)
        else:
            seen, kept = PaddedSteps(stored, used), None if done is None else as_integers(PaddedSteps(done, used))
        bounds = None if action_bounds is None else as_tensor(action_bounds, "action_bounds", copy)
        self._set(seen, kept, _counts(num_actions), population, packed, action_bounds=bounds)
        if validate:
            self._validate()
        self._count_actions()

    def _set(
        self,
        state_steps: Steps,
        action_steps: Steps | None,
        num_actions: int | tuple[int, ...] | None = None,
        population: int | None = None,
        packed: bool = False,
        dataset_size: int | None = None,
        action_bounds: Tensor | None = None,
    ) -> None:
        population = len(state_steps) if population is None else population
        values = state_steps, action_steps, num_actions, population, dataset_size or population, packed, action_bounds
        for name, value in zip(_FIELDS, values):
            object.__setattr__(self, name, value)

    def _validate(self) -> None:
        """Checks every value, flat ones in chunks."""
        check_count(self.population, "population")
        for steps, part in ((self.state_steps, "states"), (self.action_steps, "actions")):
            if steps is None:
                continue
            for values, mask, episodes in validation_rows(steps):
                if part == "states":
                    validate_states(values, mask, episodes)
                else:
                    validate_actions(values, mask, self.num_actions, episodes, self.num_steps)
        if self.action_steps is not None:
            validate_bounds(self.action_bounds, self.action_steps.outline)

    def _count_actions(self) -> None:
        if self.num_actions is None and self.action_steps is not None and self.discrete:
            highest = torch.stack([part.amax(0) for part in self.action_steps.chunks()]).amax(0)
            object.__setattr__(self, "num_actions", _counts((highest + 1).tolist()))

    def _replace(self, **changes) -> "Trajectories":
        """The same data with some fields replaced, not validated again."""
        new = object.__new__(Trajectories)
        new._set(**({name: getattr(self, name) for name in _FIELDS} | changes))
        return new

    @classmethod
    def from_episodes(
        cls,
        episodes: Iterable[tuple],
        num_actions: int | Sequence[int] | None = None,
        packed: bool = False,
        action_bounds: ArrayLike | None = None,
    ) -> "Trajectories":
        """From a list of ``(states (T_i, D), actions (T_i,) or (T_i, A))``; a final state without action is dropped.

        >>> Trajectories.from_episodes([(torch.zeros(4, 2), [0, 1, 1]), (torch.zeros(2, 2), [1, 0])])
        Trajectories(2 episodes of 2 to 3 steps, states 2 × torch.float32, 2 discrete actions)
        """
        (states, actions), files = episode_arrays(episodes)
        lengths = torch.tensor([len(action) for action in actions])
        if any(files) or is_ragged(lengths, int(lengths.max())):
            seen, done = (
                FlatSteps.of_episodes(values, mapped) if mapped else FlatSteps.joined(values, lengths)
                for values, mapped in zip((states, actions), files)
            )
            return cls._of_steps(seen, done, num_actions, packed, action_bounds)
        pad = torch.nn.utils.rnn.pad_sequence
        arrays = pad(states, True), pad(actions, True), lengths, num_actions
        return cls(*arrays, packed=packed, copy=False, action_bounds=action_bounds)

    @classmethod
    def from_flat(
        cls,
        states: ArrayLike,
        actions: ArrayLike | None,
        lengths: ArrayLike,
        num_actions: int | Sequence[int] | None = None,
        packed: bool = False,
        copy: bool = True,
        action_bounds: ArrayLike | None = None,
    ) -> "Trajectories":
        """From states ``(steps, D)`` and actions ``(steps,)`` or ``(steps, A)`` of all episodes, one after the other.

        >>> Trajectories.from_flat(torch.zeros(5, 2), [0, 1, 1, 1, 0], lengths=[3, 2])
        Trajectories(2 episodes of 2 to 3 steps, states 2 × torch.float32, 2 discrete actions)

        :param lengths: number of steps of each episode ``(N,)``; their sum is the number of steps
        """
        used = integers(lengths, "lengths", copy)
        check(used.dim() == 1 and len(used) >= 1, "the length of at least one episode", tuple(used.shape))
        seen = flat_store(states, "states", used, copy)
        done = None if actions is None else flat_store(actions, "actions", used, copy)
        return cls._of_steps(seen, done, num_actions, packed, action_bounds)

    @classmethod
    def _of_steps(
        cls,
        states: Steps,
        actions: Steps | None,
        num_actions: int | Sequence[int] | None = None,
        packed: bool = False,
        action_bounds: ArrayLike | None = None,
    ) -> "Trajectories":
        """From stores, which are validated."""
        validate_layout(states.outline, packed)
        new = object.__new__(cls)
        bounds = None if action_bounds is None else as_tensor(action_bounds, "action_bounds", True)
        kept = None if actions is None else as_integers(actions)
        new._set(states, kept, _counts(num_actions), packed=packed, action_bounds=bounds)
        new._validate()
        new._count_actions()
        return new

    def save(self, path: str | os.PathLike) -> None:
        """Writes an npz file, atomically; packed states stay packed, and flat arrays flat."""
        write_trajectories(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike, max_bytes: int = 2**34) -> "Trajectories":
        """Reads a file that :meth:`save` wrote. It is validated like any other data, and cannot execute code.

        :param max_bytes: raise if the arrays are larger than this
        """
        return read_trajectories(path, cls, max_bytes)

    @property
    def lengths(self) -> Tensor:
        """Number of steps of each episode, ``(N,)``."""
        return self.state_steps.lengths

    @property
    def stored(self) -> Tensor:
        """States as they are stored, padded, ``(N, T, D)``, or ``(N, T, B)`` if packed."""
        return self.state_steps.padded()

    @property
    def states(self) -> Tensor:
        """Floating-point states ``(N, T, D)``; bytes are converted on every access."""
        return self._floats(self.stored)

    @property
    def actions(self) -> Tensor | None:
        """Actions ``(N, T)`` or ``(N, T, A)``, ``None`` if there are none."""
        return None if self.action_steps is None else self.action_steps.padded()

    def _floats(self, stored: Tensor) -> Tensor:
        """Stored values of states as floating-point numbers."""
        if self.packed:
            return unpack_bits(stored)
        return stored if stored.is_floating_point() else stored.to(torch.get_default_dtype())

    def state_chunks(self) -> Iterator[Tensor]:
        """Floating-point states of all steps in order, ``(steps, D)`` in parts of limited size."""
        return map(self._floats, self.state_steps.chunks())

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

    def unpack(self) -> "Trajectories":
        """The same episodes with floating-point states."""
        if not self.packed and self.state_steps.dtype.is_floating_point:
            return self
        return self._replace(state_steps=self.state_steps.map(self._floats), packed=False)

    def __len__(self) -> int:
        return len(self.state_steps)

    def __getitem__(self, index) -> "Trajectories":
        """The episodes at ``index`` (an integer, slice, list or tensor), as a minibatch of these.

        Their ``population`` is the number of episodes here, to which a model scales their likelihood. See :meth:`alone`
        to use them as a data set, such as held-out episodes.
        """
        if isinstance(index, int | np.integer) or getattr(index, "shape", None) == ():
            index = [operator.index(index)]
        population = max(len(self), len(self.lengths[index]))  # an index may repeat episodes
        return self._stores(lambda steps: steps[index], population=population, dataset_size=population)

    def alone(self) -> "Trajectories":
        """The same episodes as a data set of their own, not a minibatch: ``population`` is their number."""
        return self._replace(population=None, dataset_size=None)

    def _stores(self, change: Callable[[Steps], Steps], **changes: Any) -> "Trajectories":
        """The same data with ``change`` of both stores."""
        actions = None if self.action_steps is None else change(self.action_steps)
        return self._replace(state_steps=change(self.state_steps), action_steps=actions, **changes)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Trajectories":
        """The same episodes on another device, or with floating-point states and actions of another type."""
        return self._stores(lambda steps: steps.to(device, dtype if steps.dtype.is_floating_point else None))

    def without_actions(self) -> "Trajectories":
        """The same states without actions, to sample actions from a model."""
        return self._replace(action_steps=None)

    def cut(self, num_steps: int | None) -> "Trajectories":
        """The first ``num_steps`` steps of every episode; ``None`` keeps all."""
        check(num_steps is None or num_steps >= 1, "num_steps >= 1", num_steps)
        if num_steps is None or num_steps >= self.state_steps.width:
            return self
        return self._stores(lambda steps: steps.cut(num_steps))

    def split(self, fraction: float, seed: int = 0) -> tuple["Trajectories", "Trajectories"]:
        """Splits the episodes at random into two data sets; the second has ``fraction`` of them."""
        check(isinstance(fraction, Real), "a fraction of the episodes, a number,", repr(fraction))
        held = round(fraction * len(self)) if math.isfinite(fraction) else -1
        check(0 < held < len(self), f"a fraction that leaves episodes on both sides of {len(self)}", fraction)
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed)).to(self.device)
        return self[order[held:]].alone(), self[order[:held]].alone()

    @property
    def ragged(self) -> bool:
        """Whether episodes differ so much in length that batches are made of similar ones."""
        return is_ragged(self.lengths, self.state_steps.width) and not isinstance(self.state_steps, PaddedSteps)

    @property
    def typical_length(self) -> int:
        """Padded steps of an episode in a batch: T, or about the mean length if episodes are ragged."""
        return math.ceil(self.num_steps / len(self)) if self.ragged else self.state_steps.width

    def rows_together(self, num_steps: int = _TOGETHER) -> int:
        """Number of episodes, at least one, with about ``num_steps`` padded steps: bounds the memory of a batch."""
        return max(1, num_steps // self.typical_length)

    def _groups(self, size: int, generator: torch.Generator | None = None, max_steps: float = math.inf) -> list[Tensor]:
        """Indices of the episodes of each batch."""
        check_count(size, "a batch size")
        if self.ragged:
            steps = math.ceil(size * self.num_steps / len(self))
            return bucketed(self.lengths.cpu(), int(min(steps, max_steps)), generator)
        order = torch.arange(len(self)) if generator is None else torch.randperm(len(self), generator=generator)
        return list(order.split(size))

    def num_batches(self, size: int) -> int:
        """Number of :meth:`minibatches` of this size."""
        return len(self._groups(size)) if self.ragged else math.ceil(len(self) / size)

    def groups(self, size: int | None = None) -> list[Tensor]:
        """Indices of the episodes of each batch of an evaluation, in order, or by length if ragged.

        :param size: see :meth:`rows_together`; by default all episodes, or as many as fit into memory if ragged
        """
        max_steps = min(_TOGETHER, _NUMBERS // self.state_dim)
        return self._groups(len(self) if size is None else size, max_steps=max_steps)

    def batch(self, index: Tensor, device: torch.device | str | None = None) -> "Trajectories":
        """The episodes at ``index``, padded and with floating-point states.

        :param device: of the result, by default that of the data
        """
        part = self[index.to(self.device)]
        stores = part.state_steps, part.action_steps or part.state_steps
        if not all(isinstance(steps, PaddedSteps) for steps in stores):
            width = int(part.lengths.max()) if self.ragged else self.state_steps.width
            part = part._stores(lambda steps: PaddedSteps(steps.padded(width), steps.lengths))
        return part.to(device).unpack()

    def minibatches(
        self, size: int, generator: torch.Generator | None = None, device: torch.device | str | None = None
    ) -> Iterator["Trajectories"]:
        """Iterates over all episodes in batches of ``size``, unpacked and with ``population`` set.

        Ragged episodes share a batch with others of similar length, and a batch has ``size`` times the mean length of
        padded steps, or a single episode. The generator decides which episodes of similar length meet and in which
        order batches come. Every episode is in one batch, and ``population`` gives all batches of a pass the same
        weight per episode, so the average gradient is that of the whole data set.

        :param generator: shuffles the episodes; by default they stay in order, or in order of length if ragged
        :param device: moves each batch here before unpacking it, by default the device of the data
        """
        groups = self._groups(size, generator)
        ragged = self.ragged
        for index in groups:
            population = len(groups) * len(index) if ragged else len(self)
            yield self.batch(index, device)._replace(population=population, dataset_size=len(self))

    def checksum_fields(self) -> dict[str, Any]:
        """All fields, those of arrays as tensors or as iterators over parts of them."""
        stores = {"stored": self.state_steps, "actions": self.action_steps}
        arrays = {
            name: steps.padded() if isinstance(steps, PaddedSteps) else steps and steps.chunks()
            for name, steps in stores.items()
        }
        rest = {"num_actions": self.num_actions, "population": self.population, "packed": self.packed}
        bounds = {} if self.action_bounds is None else {"action_bounds": self.action_bounds}
        return arrays | {"lengths": self.lengths} | rest | bounds

    def __repr__(self) -> str:
        counts = self.num_actions
        number = " × ".join(map(str, counts)) if isinstance(counts, tuple) else counts
        kind = "no actions" if self.action_steps is None else f"{number} discrete actions"
        if self.action_steps is not None and not self.discrete:
            kind = f"{self.action_steps.shape[-1]} continuous action dimensions"
        shortest, longest = int(self.lengths.min()), int(self.lengths.max())
        lengths = f"{longest} steps" if shortest == longest else f"{shortest} to {longest} steps"
        states = f"{self.state_dim} packed bits" if self.packed else f"{self.state_dim} × {self.state_steps.dtype}"
        whole = self.dataset_size == len(self)
        episodes = str(len(self)) if whole else f"minibatch of {len(self)} out of {self.dataset_size}"
        return f"Trajectories({episodes} episodes of {lengths}, states {states}, {kind})"
