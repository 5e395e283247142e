"""Demonstrations: episodes of different lengths, padded and masked."""

import math
import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import one_hot

from pyro_options.errors import InputError, check, check_count

from .archive import naming, read_archive, write_archive
from .bits import unpack_bits
from .validation import as_tensor, validate_actions, validate_layout, validate_lengths, validate_states

_FORMAT = "pyro_options.Trajectories/1"
_FIELDS = ("actions", "lengths", "num_actions", "population", "packed")
_PARTS = ("states", "actions")
_HEADER = ("format", "packed", "acts", "num_actions")


def _integers(values: ArrayLike, name: str, copy: bool = False) -> Tensor:
    tensor = as_tensor(values, name, copy)
    check(not tensor.is_floating_point() and not tensor.is_complex(), f"integer {name}", tensor.dtype)
    return tensor.long()


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Trajectories:
    """N episodes of at most T steps: padded states and actions, and the length of each episode.

    Packed states stay bytes in ``stored``; ``states`` and minibatches unpack them to floating-point bits. Atari RAM
    takes 32 times less memory this way.

    :param states: ``(N, T, D)`` floating point, or ``(N, T, B)`` bytes if packed; the state *before* each action
    :param actions: ``(N, T)`` integers, or ``(N, T, A)`` floating point; ``None`` to sample them from a model
    :param lengths: number of steps of each episode ``(N,)``, by default T; the padding is set to zero and never used
    :param num_actions: number of discrete actions, by default the largest action plus one; ``None`` if continuous
    :param population: number of episodes in the data set that these are a minibatch of, by default N
    :param packed: whether each byte of the states holds eight bits, the most significant first
    :param validate: check every value; turned off for views of data that were checked already
    :param copy: copy the arrays; pass ``False`` for arrays that will not be modified, to save memory
    """

    stored: Tensor  # (N, T, D), or (N, T, B) if packed
    actions: Tensor | None
    lengths: Tensor
    num_actions: int | None
    population: int
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
        stored = as_tensor(states, "states", copy)
        validate_layout(stored, packed)
        N, T, _ = stored.shape
        used = torch.full((N,), T, device=stored.device) if lengths is None else _integers(lengths, "lengths", copy)
        done = None if actions is None else as_tensor(actions, "actions", copy)
        if done is not None and not done.is_floating_point():
            done = _integers(done, "actions")
        if validate:
            stored, done = stored.detach(), None if done is None else done.detach()
        self._fill(stored=stored, actions=done, lengths=used, num_actions=num_actions, packed=packed)
        self._fill(population=N if population is None else population)
        if validate:
            check_count(self.population, "population")
            validate_lengths(used, N, T)
            validate_states(stored, self.mask)
            if done is not None:
                validate_actions(done, self.mask, num_actions)
            self._clear_padding(in_place=copy)
        if done is not None and self.discrete and num_actions is None:
            self._fill(num_actions=int(done[self.mask].max()) + 1)

    def _fill(self, **fields) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _clear_padding(self, in_place: bool) -> None:
        """Sets the padding to zero: NaN or invalid indices there must not reach any computation."""
        if bool((self.lengths < self.stored.shape[1]).any()):
            beyond = ~self.mask
            clear = Tensor.masked_fill_ if in_place else Tensor.masked_fill
            self._fill(stored=clear(self.stored, beyond.unsqueeze(-1), 0))
            if self.actions is not None:
                self._fill(actions=clear(self.actions, beyond if self.discrete else beyond.unsqueeze(-1), 0))

    def _replace(self, **changes) -> "Trajectories":
        """The same data with some fields replaced, not validated again."""
        fields = {"states": self.stored} | {name: getattr(self, name) for name in _FIELDS}
        return Trajectories(**(fields | changes), validate=False)

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
            states.append(state[:steps])
            actions.append(action)
        check(len(states) >= 1, "at least one episode", "none")
        pad = torch.nn.utils.rnn.pad_sequence
        lengths = torch.tensor([len(action) for action in actions])
        return cls(pad(states, True), pad(actions, True), lengths, num_actions, packed=packed, copy=False)

    def save(self, path: str | os.PathLike) -> None:
        """Writes an npz file, atomically; packed states stay packed."""
        arrays = {"states": self.stored, "lengths": self.lengths}
        if self.actions is not None:
            arrays["actions"] = self.actions
        for name, value in arrays.items():
            fix = "numpy has no such type: convert with .to(dtype=torch.float32)."
            check(value.dtype is not torch.bfloat16, f"{name} of a type that numpy has", value.dtype, fix)
        header = {
            "format": np.array(_FORMAT),
            "packed": np.array(self.packed),
            "acts": np.array(self.actions is not None),
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
            check(form == _FORMAT, f"the format {_FORMAT!r}", repr(form), "Read other npz files with from_npz.")
            arrays = read_archive(path, ["states", "lengths"] + ["actions"] * bool(acts), max_bytes=max_bytes)
            return cls(
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
    def states(self) -> Tensor:
        """Floating-point states ``(N, T, D)``; packed states are unpacked on every access."""
        return unpack_bits(self.stored) if self.packed else self.stored

    @property
    def discrete(self) -> bool:
        """Whether actions are integers."""
        return self.num_actions is not None if self.actions is None else not self.actions.is_floating_point()

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.stored.device

    @property
    def mask(self) -> Tensor:
        """True where a step is not padding, ``(N, T)``."""
        return torch.arange(self.stored.shape[1], device=self.device) < self.lengths.unsqueeze(-1)

    @property
    def num_steps(self) -> int:
        """Total number of steps, without padding."""
        return int(self.lengths.sum())

    @property
    def state_dim(self) -> int:
        """Size of a state D; number of bits if packed."""
        return self.stored.shape[-1] * (8 if self.packed else 1)

    @property
    def action_dim(self) -> int:
        """Size of an encoded action A: number of discrete actions, or dimensions of a continuous action."""
        if self.num_actions is not None:
            return self.num_actions
        return self._given_actions().shape[-1]

    def _given_actions(self) -> Tensor:
        if self.actions is None:
            raise InputError("Expected demonstrations with actions but got none. Use them before without_actions().")
        return self.actions

    def encoded_actions(self) -> Tensor:
        """Actions, one-hot if discrete, ``(N, T, A)``."""
        actions = self._given_actions()
        if self.num_actions is not None:
            actions = one_hot(actions, self.num_actions)
        return actions.to(torch.get_default_dtype() if self.packed else self.stored.dtype)

    def steps(self) -> Tensor:
        """States and encoded actions side by side, ``(N, T, D + A)``."""
        return torch.cat([self.states, self.encoded_actions()], -1)

    def unpack(self) -> "Trajectories":
        """The same episodes with unpacked, floating-point states."""
        return self._replace(states=self.states, packed=False) if self.packed else self

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, index) -> "Trajectories":
        """The episodes at ``index`` (an integer, slice, list or tensor), as a minibatch of these.

        Their ``population`` is the number of episodes here, to which a model scales their likelihood. See :meth:`alone`
        to use them as a data set, such as held-out episodes.
        """
        if isinstance(index, int | np.integer) or getattr(index, "shape", None) == ():
            index = [operator.index(index)]
        actions, lengths = None if self.actions is None else self.actions[index], self.lengths[index]
        population = max(len(self), len(lengths))  # an index may repeat episodes
        return self._replace(states=self.stored[index], actions=actions, lengths=lengths, population=population)

    def alone(self) -> "Trajectories":
        """The same episodes as a data set of their own, not a minibatch: ``population`` is their number."""
        return self._replace(population=len(self))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Trajectories":
        """The same episodes on another device, or with floating-point states and actions of another type."""

        def move(value: Tensor) -> Tensor:
            return value.to(device, dtype if value.is_floating_point() else None)

        actions = None if self.actions is None else move(self.actions)
        return self._replace(states=move(self.stored), actions=actions, lengths=move(self.lengths))

    def without_actions(self) -> "Trajectories":
        """The same states without actions, to sample actions from a model."""
        return self._replace(actions=None)

    def cut(self, num_steps: int | None) -> "Trajectories":
        """The first ``num_steps`` steps of every episode; ``None`` keeps all."""
        check(num_steps is None or num_steps >= 1, "num_steps >= 1", num_steps)
        if num_steps is None or num_steps >= self.stored.shape[1]:
            return self
        actions = None if self.actions is None else self.actions[:, :num_steps]
        return self._replace(
            states=self.stored[:, :num_steps], actions=actions, lengths=self.lengths.clamp(max=num_steps)
        )

    def split(self, fraction: float, seed: int = 0) -> tuple["Trajectories", "Trajectories"]:
        """Splits the episodes at random into two data sets; the second has ``fraction`` of them."""
        check(isinstance(fraction, Real), "a fraction of the episodes, a number,", repr(fraction))
        held = round(fraction * len(self)) if math.isfinite(fraction) else -1
        check(0 < held < len(self), f"a fraction that leaves episodes on both sides of {len(self)}", fraction)
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed)).to(self.device)
        return self[order[held:]].alone(), self[order[:held]].alone()

    def rows_together(self, num_steps: int = 2**16) -> int:
        """Number of episodes, at least one, with about ``num_steps`` padded steps: bounds the memory of a batch."""
        return max(1, num_steps // self.stored.shape[1])

    def minibatches(
        self, size: int, generator: torch.Generator | None = None, device: torch.device | str | None = None
    ) -> Iterator["Trajectories"]:
        """Iterates over all episodes in batches of ``size``, unpacked and with ``population`` set.

        :param generator: shuffles the episodes; by default they stay in order
        :param device: moves each batch here before unpacking it, by default the device of the data
        """
        check_count(size, "a batch size")
        order = torch.arange(len(self)) if generator is None else torch.randperm(len(self), generator=generator)
        for index in order.to(self.device).split(size):
            yield self[index].to(device).unpack()._replace(population=len(self))

    def __repr__(self) -> str:
        kind = "no actions" if self.actions is None else f"{self.num_actions} discrete actions"
        if self.actions is not None and not self.discrete:
            kind = f"{self.actions.shape[-1]} continuous action dimensions"
        shortest, longest = int(self.lengths.min()), int(self.lengths.max())
        lengths = f"{longest} steps" if shortest == longest else f"{shortest} to {longest} steps"
        states = f"{self.state_dim} packed bits" if self.packed else f"{self.state_dim} × {self.stored.dtype}"
        whole = self.population == len(self)
        number = str(len(self)) if whole else f"minibatch of {len(self)} out of {self.population}"
        return f"Trajectories({number} episodes of {lengths}, states {states}, {kind})"
