"""Demonstrations: episodes of different lengths, flat or padded and masked."""

import math
import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from pyro_options.errors import check, check_count
from pyro_options.nn.packed_bits import PackedBits

from .folder import read_folder, write_folder
from .ingestion import (
    as_integers,
    episode_arrays,
    episode_lengths,
    flat_store,
    flattened,
    integers,
    is_ragged,
    padded_store,
    validation_rows,
)
from .steps import FlatSteps, PaddedSteps, Steps
from .stored_episodes import StoredEpisodes
from .trajectory_file import read_trajectories, write_trajectories
from .validation import (
    as_tensor,
    checked_names,
    is_mapped,
    validate_actions,
    validate_bounds,
    validate_layout,
    validate_lengths,
    validate_states,
)


def _counts(num_actions: int | Sequence[int] | None) -> int | tuple[int, ...] | None:
    """Numbers of actions: one, or a tuple of those of each dimension."""
    return tuple(map(int, num_actions)) if isinstance(num_actions, Sequence | np.ndarray) else num_actions


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Trajectories(StoredEpisodes):
    """N episodes of at most T steps: states and actions, and the length of each episode.

    ``states``, ``actions`` and ``mask`` are padded to T steps. If that would more than double their size, they are
    stored flat and padded when they are asked for: training, growth and scoring ask for batches of episodes of similar
    length alone. Arrays mapped from files (``numpy.memmap``) are never copied whole; selecting and splitting them
    copies nothing.

    Bytes stay bytes in ``stored``; ``states`` and minibatches convert them, packed ones to bits, others to numbers.
    Atari RAM takes 32 times less memory this way.

    Images ``(N, T, H, W)``, ``(N, T, C, H, W)`` or ``(N, T, H, W, C)`` are stored with one axis and keep their
    ``state_shape``, for ``discover(network="cnn")`` or a network of your own. As bytes they stay bytes in minibatches
    too; selecting and splitting copies nothing.

    :param states: ``(N, T, D)`` floating point or bytes, or ``(N, T, B)`` bytes if packed; the state *before* each
        action. States may have several axes
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
        stored, shape = flattened(stored, 2)
        validate_layout(stored, packed, shape)
        N, T, _ = stored.shape
        used = torch.full((N,), T, device=stored.device) if lengths is None else integers(lengths, "lengths", copy)
        done = None if actions is None else as_tensor(actions, "actions")
        kept: Steps | None = None
        if validate:
            validate_lengths(used, N, T)
            if done is not None:
                check(done.shape[:2] == (N, T), f"actions of shape ({N}, {T}, …)", tuple(done.shape))
                kept = as_integers(padded_store(done.detach(), used, is_mapped(actions), copy))
            seen = padded_store(stored.detach(), used, is_mapped(states), copy, large=shape is not None)
        else:
            seen, kept = PaddedSteps(stored, used), None if done is None else as_integers(PaddedSteps(done, used))
        bounds = None if action_bounds is None else as_tensor(action_bounds, "action_bounds", copy)
        self._set(seen, kept, _counts(num_actions), population, packed, action_bounds=bounds, state_shape=shape)
        if validate:
            self._validate()
        self._count_actions()

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

    @classmethod
    def from_episodes(
        cls,
        episodes: Iterable[tuple],
        num_actions: int | Sequence[int] | None = None,
        packed: bool = False,
        action_bounds: ArrayLike | None = None,
    ) -> "Trajectories":
        """From a list of ``(states (T_i, D), actions (T_i,) or (T_i, A))``; a final state without action is dropped.

        States may have several axes, as images do.

        >>> Trajectories.from_episodes([(torch.zeros(4, 2), [0, 1, 1]), (torch.zeros(2, 2), [1, 0])])
        Trajectories(2 episodes of 2 to 3 steps, states 2 × torch.float32, 2 discrete actions)
        """
        (states, actions), files = episode_arrays(episodes)
        lengths = torch.tensor([len(action) for action in actions])
        if any(files) or is_ragged(lengths, int(lengths.max())) or states[0].dim() > 2:
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
        lengths: ArrayLike | None = None,
        num_actions: int | Sequence[int] | None = None,
        packed: bool = False,
        copy: bool = True,
        action_bounds: ArrayLike | None = None,
        ends: ArrayLike | None = None,
    ) -> "Trajectories":
        """From states ``(steps, D)`` and actions ``(steps,)`` or ``(steps, A)`` of all episodes, one after the other.

        >>> Trajectories.from_flat(torch.zeros(5, 2), [0, 1, 1, 1, 0], lengths=[3, 2])
        Trajectories(2 episodes of 2 to 3 steps, states 2 × torch.float32, 2 discrete actions)
        >>> Trajectories.from_flat(torch.zeros(5, 2), [0, 1, 1, 1, 0], ends=[False, False, True, False, True])
        Trajectories(2 episodes of 2 to 3 steps, states 2 × torch.float32, 2 discrete actions)

        :param lengths: number of steps of each episode ``(N,)``; their sum is the number of steps. Booleans are taken
            as ``ends``
        :param ends: instead of lengths, whether each step is the last of its episode ``(steps,)``: ``terminated |
            truncated`` of Gymnasium, ``terminals | timeouts`` of D4RL and d3rlpy. Steps behind the last end are an
            episode, too
        """
        given = lengths if ends is None else ends
        check((lengths is None) != (ends is None), "either lengths or ends", "neither or both")
        assert given is not None
        used = episode_lengths(given, ends is not None, copy)
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
        validate: bool = True,
    ) -> "Trajectories":
        """From stores, whose values are validated."""
        shape = states.shape if len(states.shape) > 1 else None
        states = states if shape is None else states.flattened()
        validate_layout(states.outline, packed, shape)
        new = object.__new__(cls)
        bounds = None if action_bounds is None else as_tensor(action_bounds, "action_bounds", True)
        kept = None if actions is None else as_integers(actions)
        new._set(states, kept, _counts(num_actions), packed=packed, action_bounds=bounds, state_shape=shape)
        if validate:
            new._validate()
        new._count_actions()
        return new

    def save(self, path: str | os.PathLike) -> None:
        """Writes an npz file, or a folder if the name has no ending such as ``.npz``.

        A file is compressed and read whole. A folder holds arrays that are mapped: what is read of it is what a batch
        needs, so that it may be larger than the memory. Packed states stay packed, and nothing incomplete is left after
        an error.
        """
        if Path(path).suffix:
            write_trajectories(path, self)
        else:
            write_folder(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike, max_bytes: int = 2**34, verify: bool = True) -> "Trajectories":
        """Reads a file or a folder that :meth:`save` wrote. It cannot execute code.

        :param max_bytes: raise if the arrays of a file are larger than this
        :param verify: for a folder, compare checksums and check every value, as is always done for a file; reads
            everything once. ``False`` trusts a folder that was verified before
        """
        return read_folder(path, cls, verify) if Path(path).is_dir() else read_trajectories(path, cls, max_bytes)

    def unpack(self) -> "Trajectories":
        """The same episodes with floating-point states; :attr:`frames` stay bytes."""
        if self.frames:
            return self
        if not self.packed and self.state_steps.dtype.is_floating_point:
            return self
        return self._unpacked(self.state_steps.map(self.as_floats))

    def _floating(self) -> "Trajectories":
        """As :meth:`unpack`, for padded episodes; many packed states on the CPU stay so until their values are used."""
        dtype = torch.get_default_dtype()
        if not (self.packed and PackedBits.suits(self.state_steps.padded(), dtype)):
            return self.unpack()
        return self._unpacked(PaddedSteps(PackedBits(self.state_steps.padded(), dtype), self.lengths))

    def _unpacked(self, states: Steps) -> "Trajectories":
        """The same episodes with floating-point states in another store."""
        bits = self.packed and self.state_names is not None
        names = tuple(f"{name} bit {7 - b}" for name in self.state_names or () for b in range(8))
        return self._replace(state_steps=states, packed=False, **({"state_names": names} if bits else {}))

    def with_names(
        self,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        episode_names: Sequence[str] | None = None,
    ) -> "Trajectories":
        """The same episodes with names, which selections, files and the skills discovered in them keep.

        >>> Trajectories(torch.zeros(1, 2, 2), [[0, 1]]).with_names(["x", "y"], ["left", "right"]).action_names
        ('left', 'right')

        :param state_names: of the entries of a state, of its bytes if packed; ``None`` keeps those that there are
        :param action_names: of discrete actions, or of the dimensions of other actions; ``None`` keeps them
        :param episode_names: labels of the episodes, such as those of sessions, for tables of segments; ``None`` keeps
            them
        """
        names = {name: getattr(self, name) for name in ("state_names", "action_names", "episode_names")}
        if episode_names is not None:
            names["episode_names"] = checked_names(episode_names, len(self), "episode")
        if state_names is not None:
            names["state_names"] = checked_names(state_names, self.state_steps.shape[-1], "entry of a state")
        if action_names is not None:
            single = isinstance(self.num_actions, int)
            count = self.num_actions if single else self.given_actions().shape[-1]
            names["action_names"] = checked_names(
                action_names, count, "discrete action" if single else "action dimension"
            )
        return self._replace(**names)

    def flat_states(self) -> "Trajectories":
        """The same episodes with states of one axis, for models without a network for their shape."""
        return self if self.state_shape is None else self._replace(state_shape=None)

    def with_steps(self, state_steps: Steps | None = None, action_steps: Steps | None = None) -> "Trajectories":
        """The same episodes with other stores of their values; a new one of actions has no known bounds."""
        changes: dict[str, Any] = {} if state_steps is None else {"state_steps": state_steps}
        if action_steps is not None:
            changes |= {"action_steps": action_steps, "action_bounds": None}
        return self._replace(**changes)

    def __getitem__(self, index) -> "Trajectories":
        """The episodes at ``index`` (an integer, slice, list or tensor), as a minibatch of these.

        Their ``population`` is the number of episodes here, to which a model scales their likelihood. See :meth:`alone`
        to use them as a data set, such as held-out episodes.
        """
        if isinstance(index, int | np.integer) or getattr(index, "shape", None) == ():
            index = [operator.index(index)]
        population = max(len(self), len(self.lengths[index]))  # an index may repeat episodes
        changes: dict[str, Any] = {"population": population, "dataset_size": population}
        if self.episode_names is not None:
            chosen = torch.arange(len(self), device=self.device)[index].tolist()
            changes["episode_names"] = tuple(self.episode_names[i] for i in chosen)
        return self._stores(lambda steps: steps[index], **changes)

    def alone(self) -> "Trajectories":
        """The same episodes as a data set of their own, not a minibatch: ``population`` is their number."""
        return self._replace(population=None, dataset_size=None)

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

    def batch(self, index: Tensor, device: torch.device | str | None = None) -> "Trajectories":
        """The episodes at ``index``, padded and with floating-point states.

        :param device: of the result, by default that of the data
        """
        part = self[index.to(self.device)]
        stores = part.state_steps, part.action_steps or part.state_steps
        if not all(isinstance(steps, PaddedSteps) for steps in stores):
            width = int(part.lengths.max()) if self.ragged else self.state_steps.width
            part = part._stores(lambda steps: PaddedSteps(steps.padded(width), steps.lengths))
        return part.to(device)._floating()

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
        for index, population in self.batch_indices(size, generator):
            yield self.minibatch(index, population, device)

    def minibatch(self, index: Tensor, population: int, device: torch.device | str | None = None) -> "Trajectories":
        """The episodes at ``index`` as one of the :meth:`minibatches`; see :meth:`batch_indices`."""
        return self.batch(index, device)._replace(population=population, dataset_size=len(self))
