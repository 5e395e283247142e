"""Demonstrations: ragged episodes, padded and masked."""

from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pyro_options.errors import check


def _first(bad: Tensor) -> int:
    """Index of the first episode with anything bad in it."""
    return int(bad.flatten(1).any(1).nonzero()[0])


@dataclass(frozen=True, repr=False)
class Trajectories:
    """N episodes of at most T steps.

    :param states: ``(N, T, D)`` floating point; the state *before* each action
    :param actions: ``(N, T)`` integers, or ``(N, T, A)`` floating point; ``None`` to let a model draw them
    :param lengths: steps in use of each episode ``(N,)``, by default all of them; what lies beyond is
        set to zero and never used
    :param num_actions: number of discrete actions, by default one more than the largest seen; ``None`` if continuous
    :param population: size of the data set that these episodes are a minibatch of, by default their own number
    :param validate: check every value; internal views of checked data turn it off
    """

    states: Tensor
    actions: Tensor | None
    lengths: Tensor | None = None
    num_actions: int | None = None
    population: int | None = None
    validate: InitVar[bool] = True

    def __post_init__(self, validate: bool) -> None:
        fill = object.__setattr__
        fill(self, "states", torch.as_tensor(self.states))
        check(self.states.dim() == 3, "states of shape (N, T, D)", tuple(self.states.shape))
        N, T, D = self.states.shape
        check(min(N, T, D) >= 1, "at least one episode, step and state dimension", f"(N, T, D) = {(N, T, D)}")
        check(self.states.is_floating_point(), "floating point states", self.states.dtype, "Call .float() on them.")
        lengths = torch.full((N,), T, device=self.states.device) if self.lengths is None else self.lengths
        fill(self, "lengths", torch.as_tensor(lengths))
        if self.actions is not None:
            fill(self, "actions", torch.as_tensor(self.actions))
        if self.population is None:
            fill(self, "population", N)
        if validate:
            self._validate_lengths(N, T)
            self._validate_states()
            self._validate_actions(N, T)
            self._clear_padding()
        if self.actions is not None and self.discrete and self.num_actions is None:
            fill(self, "num_actions", int(self.actions[self.mask].max()) + 1)

    def _validate_lengths(self, N: int, T: int) -> None:
        lengths = self.lengths
        check(lengths.shape == (N,), f"lengths of shape ({N},)", tuple(lengths.shape))
        check(not lengths.is_floating_point(), "integer lengths", lengths.dtype)
        bad = (lengths < 1) | (lengths > T)
        if bad.any():
            i = int(bad.nonzero()[0])
            fix = "Drop empty episodes first." if lengths[i] < 1 else "Pad states and actions to the longest episode."
            raise ValueError(f"Expected lengths in [1, {T}] but got {int(lengths[i])} at episode {i}. {fix}")

    def _validate_states(self) -> None:
        bad = ~torch.isfinite(self.states) & self.mask.unsqueeze(-1)
        if bad.any():
            raise ValueError(
                f"Expected finite states but got NaN or infinity at episode {_first(bad)}. Drop or repair that episode."
            )

    def _validate_actions(self, N: int, T: int) -> None:
        if self.actions is None:
            return
        check(self.actions.shape[:2] == (N, T), f"actions of shape ({N}, {T}, …)", tuple(self.actions.shape))
        if self.discrete:
            check(self.actions.dim() == 2, "integer actions of shape (N, T)", tuple(self.actions.shape))
            high = self.num_actions if self.num_actions is not None else torch.iinfo(self.actions.dtype).max
            check(high >= 1, "num_actions >= 1", high)
            bad = ((self.actions < 0) | (self.actions >= high)) & self.mask
            if bad.any():
                raise ValueError(
                    f"Expected actions in [0, {high - 1}] but got {int(self.actions[bad][0])} at episode "
                    f"{_first(bad)}. Check num_actions, or drop that episode."
                )
        else:
            check(self.actions.dim() == 3, "continuous actions of shape (N, T, A)", tuple(self.actions.shape))
            check(self.num_actions is None, "num_actions=None with continuous actions", self.num_actions)
            bad = ~torch.isfinite(self.actions) & self.mask.unsqueeze(-1)
            if bad.any():
                raise ValueError(f"Expected finite actions but got NaN or infinity at episode {_first(bad)}.")

    def _clear_padding(self) -> None:
        """Zeros beyond the end of each episode, so that garbage there can reach no number and no index."""
        if bool((self.lengths < self.states.shape[1]).any()):
            for name in ("states", "actions"):
                value = getattr(self, name)
                if value is not None:
                    keep = self.mask.reshape(self.mask.shape + (1,) * (value.dim() - 2))
                    object.__setattr__(self, name, torch.where(keep, value, torch.zeros_like(value)))

    @classmethod
    def from_episodes(cls, episodes: Sequence[tuple], num_actions: int | None = None) -> "Trajectories":
        """From a list of ``(states (T_i, D), actions (T_i,) or (T_i, A))``; one more state than actions is dropped."""
        check(len(episodes) >= 1, "at least one episode", "none")
        states, actions = [], []
        for i, (state, action) in enumerate(episodes):
            state, action = torch.as_tensor(state), torch.as_tensor(action)
            check(
                len(action) >= 1, "episodes of at least one step", f"none at episode {i}", "Drop empty episodes first."
            )
            check(
                len(state) in (len(action), len(action) + 1),
                "as many states as actions, or one more",
                f"{len(state)} states and {len(action)} actions at episode {i}",
            )
            states.append(state[: len(action)])
            actions.append(action)
        pad = torch.nn.utils.rnn.pad_sequence
        lengths = torch.tensor([len(action) for action in actions])
        return cls(pad(states, batch_first=True), pad(actions, batch_first=True), lengths, num_actions)

    @property
    def discrete(self) -> bool:
        """Whether actions are integers."""
        return self.num_actions is not None if self.actions is None else not self.actions.is_floating_point()

    @property
    def mask(self) -> Tensor:
        """Steps in use, ``(N, T)``."""
        return torch.arange(self.states.shape[1], device=self.states.device) < self.lengths.unsqueeze(-1)

    @property
    def num_steps(self) -> int:
        """Steps in use, over all episodes."""
        return int(self.lengths.sum())

    @property
    def state_dim(self) -> int:
        return self.states.shape[-1]

    @property
    def action_dim(self) -> int:
        """Size of an encoded action: number of discrete actions, or dimensions of a continuous one."""
        return self.num_actions if self.discrete else self.actions.shape[-1]

    def encoded_actions(self) -> Tensor:
        """Actions, one-hot if discrete, ``(N, T, A)``."""
        actions = one_hot(self.actions, self.num_actions) if self.discrete else self.actions
        return actions.to(self.states.dtype)

    def steps(self) -> Tensor:
        """States and encoded actions side by side, ``(N, T, D + A)``."""
        return torch.cat([self.states, self.encoded_actions()], -1)

    def __len__(self) -> int:
        return len(self.states)

    def __getitem__(self, index) -> "Trajectories":
        """The episodes at ``index`` (a slice, list or tensor), as a data set of their own."""
        if isinstance(index, int):
            index = [index]
        actions = None if self.actions is None else self.actions[index]
        return replace(
            self,
            states=self.states[index],
            actions=actions,
            lengths=self.lengths[index],
            population=None,
            validate=False,
        )

    def to(self, device: torch.device | str) -> "Trajectories":
        actions = None if self.actions is None else self.actions.to(device)
        states, lengths = self.states.to(device), self.lengths.to(device)
        return replace(self, states=states, actions=actions, lengths=lengths, validate=False)

    def without_actions(self) -> "Trajectories":
        """The same states, for a model to act on."""
        return replace(self, actions=None, validate=False)

    def split(self, fraction: float, seed: int = 0) -> tuple["Trajectories", "Trajectories"]:
        """Two data sets of whole episodes, the second with ``fraction`` of them, shuffled by ``seed``."""
        held = round(fraction * len(self))
        check(0 < held < len(self), f"a fraction that leaves episodes on both sides of {len(self)}", fraction)
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed)).to(self.states.device)
        return self[order[held:]], self[order[:held]]

    def minibatches(self, size: int, generator: torch.Generator | None = None) -> Iterator["Trajectories"]:
        """Every episode once, ``size`` at a time; shuffled if a generator is given. Batches know their population."""
        check(size >= 1, "a batch size >= 1", size)
        order = torch.arange(len(self)) if generator is None else torch.randperm(len(self), generator=generator)
        for index in order.to(self.states.device).split(size):
            yield replace(self[index], population=len(self), validate=False)

    def __repr__(self) -> str:
        kind = "no actions" if self.actions is None else f"{self.num_actions} discrete actions"
        if self.actions is not None and not self.discrete:
            kind = f"{self.actions.shape[-1]} continuous action dimensions"
        lengths = f"{int(self.lengths.min())} to {int(self.lengths.max())} steps"
        return f"Trajectories({len(self)} episodes of {lengths}, states {self.state_dim} × {self.states.dtype}, {kind})"
