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

from .archive import naming, read_archive, write_archive
from .batching import bucketed
from .bits import unpack_bits
from .steps import FlatSteps, PaddedSteps, Steps
from .validation import as_tensor, is_mapped, validate_actions, validate_layout, validate_lengths, validate_states

_FORMAT = "pyro_options.Trajectories/1"  # padded arrays
_FLAT_FORMAT = "pyro_options.Trajectories/2"  # flat arrays
_FIELDS = ("state_steps", "action_steps", "num_actions", "population", "dataset_size", "packed")
_PARTS = ("states", "actions")
_HEADER = ("format", "packed", "acts", "num_actions")
_SMALL = 2**12  # padded steps that are not worth avoiding
_TOGETHER = 2**16  # padded steps to evaluate at a time


def _integers(values: ArrayLike, name: str, copy: bool = False) -> Tensor:
    tensor = as_tensor(values, name, copy)
    check(not tensor.is_floating_point() and not tensor.is_complex(), f"integer {name}", tensor.dtype)
    return tensor.long()


def _is_ragged(lengths: Tensor, width: int) -> bool:
    """Whether padding would more than double the number of steps."""
    padded = len(lengths) * width
    return padded > _SMALL and padded > 2 * int(lengths.sum())


def _stored(values: Tensor, lengths: Tensor, mapped: bool, copy: bool) -> Steps:
    """A store of padded values ``(N, T, …)``: files and padded arrays are used as they are, ragged ones compacted."""
    if mapped:
        return FlatSteps.of_rows(values, lengths, mapped)
    width = values.shape[1]
    mask = torch.arange(width, device=values.device) < lengths.unsqueeze(-1)
    if _is_ragged(lengths, width):
        return FlatSteps.of(values[mask], lengths, width)
    values = values.clone() if copy else values
    if bool(mask.all()):
        return PaddedSteps(values, lengths)
    # NaN or invalid indices in the padding must not reach any computation
    clear = Tensor.masked_fill_ if copy else Tensor.masked_fill
    return PaddedSteps(clear(values, ~mask.view(*mask.shape, *[1] * (values.dim() - 2)), 0), lengths)


def _rows(steps: Steps) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Padded values and their mask; flat values as rows of one step, with the number of the episode of each."""
    if isinstance(steps, PaddedSteps):
        yield steps.values, steps.mask, None
        return
    ends, first = steps.lengths.cpu().cumsum(0), 0
    for values in steps.chunks():
        episodes = torch.searchsorted(ends, torch.arange(first, first + len(values)), right=True)
        yield values.unsqueeze(1), torch.ones(len(values), 1, dtype=torch.bool, device=values.device), episodes
        first += len(values)


def _as_integers(steps: Steps) -> Steps:
    if steps.dtype.is_floating_point:
        return steps
    check(not steps.dtype.is_complex, "integer actions", steps.dtype)
    return steps.to(dtype=torch.long)


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
    :param actions: ``(N, T)`` integers, or ``(N, T, A)`` floating point; ``None`` to sample them from a model
    :param lengths: number of steps of each episode ``(N,)``, by default T; the padding is set to zero and never used
    :param num_actions: number of discrete actions, by default the largest action plus one; ``None`` if continuous
    :param population: number of episodes that these stand for in a minibatch, by default N; models scale the
        log-likelihood by population / N
    :param packed: whether each byte of the states holds eight bits, the most significant first
    :param validate: check every value; turned off for views of data that were checked already
    :param copy: copy the arrays; pass ``False`` for arrays that will not be modified, to save memory
    """

    state_steps: Steps  # values (D,), or (B,) if packed
    action_steps: Steps | None
    num_actions: int | None
    population: int
    dataset_size: int  # episodes in the data set that these are a minibatch of
    packed: bool

    def __init__(
        self,
        states: ArrayLike,
        actions: ArrayLike | None,
        lengths: ArrayLike | None = None,
        num_actions: int | None = None,
        population: int | None = None,
        packed: bool = False,
        validate: bool = True,
        copy: bool = True,
    ):
        copy = copy and validate
        stored = as_tensor(states, "states")
        validate_layout(stored, packed)
        N, T, _ = stored.shape
        used = torch.full((N,), T, device=stored.device) if lengths is None else _integers(lengths, "lengths", copy)
        done = None if actions is None else as_tensor(actions, "actions")
        kept: Steps | None = None
        if validate:
            validate_lengths(used, N, T)
            if done is not None:
                check(done.shape[:2] == (N, T), f"actions of shape ({N}, {T}, …)", tuple(done.shape))
                kept = _as_integers(_stored(done.detach(), used, is_mapped(actions), copy))
            seen = _stored(stored.detach(), used, is_mapped(states), copy)
        else:
            seen, kept = PaddedSteps(stored, used), None if done is None else _as_integers(PaddedSteps(done, used))
        self._set(seen, kept, num_actions, population, packed)
        if validate:
            self._validate()
        self._count_actions()

    def _set(
        self,
        state_steps: Steps,
        action_steps: Steps | None,
        num_actions: int | None = None,
        population: int | None = None,
        packed: bool = False,
        dataset_size: int | None = None,
    ) -> None:
        population = len(state_steps) if population is None else population
        values = state_steps, action_steps, num_actions, population, dataset_size or population, packed
        for name, value in zip(_FIELDS, values):
            object.__setattr__(self, name, value)

    def _validate(self) -> None:
        """Checks every value, flat ones in chunks."""
        check_count(self.population, "population")
        for steps, part in ((self.state_steps, "states"), (self.action_steps, "actions")):
            if steps is None:
                continue
            for values, mask, episodes in _rows(steps):
                if part == "states":
                    validate_states(values, mask, episodes)
                else:
                    validate_actions(values, mask, self.num_actions, episodes, self.num_steps)

    def _count_actions(self) -> None:
        if self.num_actions is None and self.action_steps is not None and self.discrete:
            highest = max(int(part.max()) for part in self.action_steps.chunks())
            object.__setattr__(self, "num_actions", highest + 1)

    def _replace(self, **changes) -> "Trajectories":
        """The same data with some fields replaced, not validated again."""
        new = object.__new__(Trajectories)
        new._set(**({name: getattr(self, name) for name in _FIELDS} | changes))
        return new

    @classmethod
    def from_episodes(
        cls, episodes: Iterable[tuple], num_actions: int | None = None, packed: bool = False
    ) -> "Trajectories":
        """From a list of ``(states (T_i, D), actions (T_i,) or (T_i, A))``; a final state without action is dropped.

        >>> Trajectories.from_episodes([(torch.zeros(4, 2), [0, 1, 1]), (torch.zeros(2, 2), [1, 0])])
        Trajectories(2 episodes of 2 to 3 steps, states 2 × torch.float32, 2 discrete actions)
        """
        check(isinstance(episodes, Iterable), "episodes, pairs of states and actions,", type(episodes).__name__)
        states: list[Tensor] = []
        actions: list[Tensor] = []
        files = [True, True]
        for i, episode in enumerate(episodes):
            given = f"{len(episode)} parts" if isinstance(episode, Sequence) else type(episode).__name__
            check(given == "2 parts", "pairs of states and actions", f"{given} at episode {i}")
            named = [(part, f"{name} of episode {i}") for part, name in zip(episode, _PARTS)]
            state, action = (as_tensor(part, name, padded=False) for part, name in named)
            whole = state.dim() >= 1 and action.dim() >= 1
            check(whole, "states and actions with a step axis", f"a single number at episode {i}")
            steps = len(action)
            check(steps >= 1, "episodes of at least one step", f"none at episode {i}", "Drop empty episodes first.")
            check(
                len(state) in (steps, steps + 1),
                "as many states as actions, or one more",
                f"{len(state)} states and {steps} actions at episode {i}",
            )
            for name, new, seen in (("states", state, states), ("actions", action, actions)):
                kind = (tuple(new.shape[1:]), new.dtype)
                first = (tuple(seen[0].shape[1:]), seen[0].dtype) if seen else kind
                check(kind == first, f"{name} of shape and type {first} as in episode 0", f"{kind} at episode {i}")
            states.append(state[:steps].detach())
            actions.append(action.detach())
            files = [before and is_mapped(part) for before, part in zip(files, episode)]
        check(len(states) >= 1, "at least one episode", "none")
        lengths = torch.tensor([len(action) for action in actions])
        if any(files) or _is_ragged(lengths, int(lengths.max())):
            stores = [
                FlatSteps.of_episodes(values, mapped) if mapped else FlatSteps.joined(values, lengths)
                for values, mapped in zip((states, actions), files)
            ]
            return cls._of_steps(*stores, num_actions, packed)
        pad = torch.nn.utils.rnn.pad_sequence
        return cls(pad(states, True), pad(actions, True), lengths, num_actions, packed=packed, copy=False)

    @classmethod
    def from_flat(
        cls,
        states: ArrayLike,
        actions: ArrayLike | None,
        lengths: ArrayLike,
        num_actions: int | None = None,
        packed: bool = False,
        copy: bool = True,
    ) -> "Trajectories":
        """From states ``(steps, D)`` and actions ``(steps,)`` or ``(steps, A)`` of all episodes, one after the other.

        >>> Trajectories.from_flat(torch.zeros(5, 2), [0, 1, 1, 1, 0], lengths=[3, 2])
        Trajectories(2 episodes of 2 to 3 steps, states 2 × torch.float32, 2 discrete actions)

        :param lengths: number of steps of each episode ``(N,)``; their sum is the number of steps
        """
        used = _integers(lengths, "lengths", copy)
        check(used.dim() == 1 and len(used) >= 1, "the length of at least one episode", tuple(used.shape))
        validate_lengths(used, len(used), int(used.max()))
        stores: list[FlatSteps | None] = []
        for name, values in zip(_PARTS, (states, actions)):
            flat = None if values is None else as_tensor(values, name).detach()
            if flat is not None:
                given = len(flat) if flat.dim() else "a single number"
                check(given == int(used.sum()), f"{name} of {int(used.sum())} steps, the sum of the lengths,", given)
                flat = flat.clone() if copy and not is_mapped(values) else flat
            stores.append(None if flat is None else FlatSteps.of(flat, used, mapped=is_mapped(values)))
        seen, done = stores
        check(seen is not None, "states", None)
        assert seen is not None
        return cls._of_steps(seen, done, num_actions, packed)

    @classmethod
    def _of_steps(
        cls, states: Steps, actions: Steps | None, num_actions: int | None = None, packed: bool = False
    ) -> "Trajectories":
        """From stores, which are validated."""
        validate_layout(states.outline, packed)
        new = object.__new__(cls)
        new._set(states, None if actions is None else _as_integers(actions), num_actions, packed=packed)
        new._validate()
        new._count_actions()
        return new

    def save(self, path: str | os.PathLike) -> None:
        """Writes an npz file, atomically; packed states stay packed, and flat arrays flat."""
        flat = not isinstance(self.state_steps, PaddedSteps)
        stores = {"states": self.state_steps, "actions": self.action_steps}
        arrays = {
            name: torch.cat(list(steps.chunks())) if flat else steps.padded()
            for name, steps in stores.items()
            if steps is not None
        } | {"lengths": self.lengths}
        for name, value in arrays.items():
            fix = "numpy has no such type: convert with .to(dtype=torch.float32)."
            check(value.dtype is not torch.bfloat16, f"{name} of a type that numpy has", value.dtype, fix)
        header = {
            "format": np.array(_FLAT_FORMAT if flat else _FORMAT),
            "packed": np.array(self.packed),
            "acts": np.array(self.action_steps is not None),
            "num_actions": np.array(-1 if self.num_actions is None else self.num_actions),
        }
        write_archive(path, header | {name: value.detach().cpu().numpy() for name, value in arrays.items()})

    @classmethod
    def load(cls, path: str | os.PathLike, max_bytes: int = 2**34) -> "Trajectories":
        """Reads a file that :meth:`save` wrote. It is validated like any other data, and cannot execute code.

        :param max_bytes: raise if the arrays are larger than this
        """
        header = read_archive(path, _HEADER, max_bytes, {"format": "Read other npz files with from_npz."})
        try:
            form, packed, acts, num_actions = (header[name].item() for name in _HEADER)
            known = form in (_FORMAT, _FLAT_FORMAT)
            check(known, f"the format {_FORMAT!r}", repr(form), "Read other npz files with from_npz.")
            arrays = read_archive(path, ["states", "lengths"] + ["actions"] * bool(acts), max_bytes=max_bytes)
            return (cls if form == _FORMAT else cls.from_flat)(
                arrays["states"],
                arrays.get("actions"),
                arrays["lengths"],
                None if num_actions < 0 else num_actions,
                packed=bool(packed),
                copy=False,
            )
        except (TypeError, ValueError) as error:
            raise naming(path, error) from error

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
        """Whether actions are integers."""
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
            return self.num_actions
        return self.given_actions().shape[-1]

    def given_actions(self) -> Steps:
        """The store of the actions; an error if there are none."""
        if self.action_steps is None:
            raise InputError("Expected demonstrations with actions but got none. Use them before without_actions().")
        return self.action_steps

    def encode(self, actions: Tensor) -> Tensor:
        """Actions of these episodes ``(…)`` or ``(…, A)``, one-hot if discrete, ``(…, A)``."""
        if self.num_actions is not None:
            actions = one_hot(actions, self.num_actions)
        plain = self.state_steps.dtype.is_floating_point
        return actions.to(self.state_steps.dtype if plain else torch.get_default_dtype())

    def encoded_actions(self) -> Tensor:
        """Actions, one-hot if discrete, ``(N, T, A)``."""
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
        """The episodes at ``index`` (an integer, slice, list or tensor), as a new data set."""
        if isinstance(index, int | np.integer) or getattr(index, "shape", None) == ():
            index = [operator.index(index)]
        return self._stores(lambda steps: steps[index], population=None, dataset_size=None)

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
        return self[order[held:]], self[order[:held]]

    @property
    def ragged(self) -> bool:
        """Whether episodes differ so much in length that batches are made of similar ones."""
        return _is_ragged(self.lengths, self.state_steps.width) and not isinstance(self.state_steps, PaddedSteps)

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
        return self._groups(len(self) if size is None else size, max_steps=_TOGETHER)

    def batch(self, index: Tensor, device: torch.device | str | None = None) -> "Trajectories":
        """The episodes at ``index``, padded and with floating-point states.

        :param device: of the result, by default that of the data
        """
        part = self[index.to(self.device)]
        if not isinstance(part.state_steps, PaddedSteps):
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
        return arrays | {"lengths": self.lengths} | rest

    def __repr__(self) -> str:
        kind = "no actions" if self.action_steps is None else f"{self.num_actions} discrete actions"
        if self.action_steps is not None and not self.discrete:
            kind = f"{self.action_steps.shape[-1]} continuous action dimensions"
        shortest, longest = int(self.lengths.min()), int(self.lengths.max())
        lengths = f"{longest} steps" if shortest == longest else f"{shortest} to {longest} steps"
        states = f"{self.state_dim} packed bits" if self.packed else f"{self.state_dim} × {self.state_steps.dtype}"
        return f"Trajectories({len(self)} episodes of {lengths}, states {states}, {kind})"
