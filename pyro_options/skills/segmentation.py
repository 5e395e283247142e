"""Segmentations: the option of every step of every episode."""

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from pyro_options.display.fragments import panel, strip

#: an option counts as in use if it covers at least this share of the steps
IN_USE = 0.01

_SHOWN = 8  # episodes in a notebook


class Segment(NamedTuple):
    """Consecutive steps with the same option: ``start <= t < stop``."""

    option: int
    start: int
    stop: int

    @property
    def length(self) -> int:
        """Number of steps."""
        return self.stop - self.start


class FlatPlaces:
    """Where the steps of N episodes are in flat tensors ``(steps,)`` that hold one episode after the other.

    :param lengths: ``(N,)``
    """

    def __init__(self, lengths: Tensor):
        self.lengths, self.ends = lengths, lengths.cumsum(0)
        self.first = self.ends - lengths

    def of(self, episodes: Tensor, width: int) -> tuple[Tensor, Tensor]:
        """Places ``(n, width)`` of the steps of some episodes, and the mask of those that exist."""
        time = torch.arange(width)
        mask = time < self.lengths[episodes].unsqueeze(-1)
        return (self.first[episodes].unsqueeze(-1) + time).where(mask, self.first[episodes].unsqueeze(-1)), mask

    def episode_of(self, places: Tensor) -> Tensor:
        """The episode of each place."""
        return torch.searchsorted(self.ends, places, right=True)


@dataclass(frozen=True, init=False, repr=False)
class Segmentation:
    """The option of every step of N episodes, and the statistics of their segments. Padding is ignored.

    Stored without padding; ``options``, ``switches``, ``mask`` and ``starts`` are padded when they are asked for.

    :param options: integers ``(N, T)``
    :param switches: ``(N, T)``
    """

    flat_options: Tensor  # (steps,) of all episodes, one after the other
    flat_switches: Tensor  # (steps,) p(b_t = 1 | s, a)
    lengths: Tensor  # (N,) steps of each episode
    log_likelihood: Tensor  # (N,) exact log p(a | s) of each episode, in nats
    num_options: int
    width: int  # T of the padded form
    episode_names: tuple[str, ...] | None = None  # labels of the episodes

    def __init__(self, options: Tensor, switches: Tensor, lengths: Tensor, log_likelihood: Tensor, num_options: int):
        mask = torch.arange(options.shape[1]) < lengths.unsqueeze(-1)
        self._set(options[mask], switches[mask], lengths, log_likelihood, num_options, options.shape[1], None)

    def _set(self, *values) -> None:
        for field, value in zip(fields(self), values):
            object.__setattr__(self, field.name, value)

    @classmethod
    def from_flat(
        cls,
        options: Tensor,
        switches: Tensor,
        lengths: Tensor,
        log_likelihood: Tensor,
        num_options: int,
        width: int | None = None,
        episode_names: tuple[str, ...] | None = None,
    ) -> "Segmentation":
        """From options and switches ``(steps,)`` of all episodes, one after the other.

        :param width: T of the padded form, by default that of the longest episode
        :param episode_names: labels of the episodes, for tables
        """
        new = object.__new__(cls)
        new._set(options, switches, lengths, log_likelihood, num_options, width or int(lengths.max()), episode_names)
        return new

    @property
    def places(self) -> FlatPlaces:
        """Where the steps of each episode are in flat tensors."""
        return FlatPlaces(self.lengths)

    @property
    def mask(self) -> Tensor:
        """Steps that are not padding, ``(N, T)``."""
        return torch.arange(self.width) < self.lengths.unsqueeze(-1)

    def _padded(self, flat: Tensor) -> Tensor:
        mask = self.mask
        return flat.new_zeros(mask.shape).masked_scatter_(mask, flat)

    @property
    def options(self) -> Tensor:
        """The option of each step, integers ``(N, T)``; padding repeats the last option."""
        last = self.flat_options[self.places.ends - 1]
        return torch.where(self.mask, self._padded(self.flat_options), last.unsqueeze(-1))

    @property
    def switches(self) -> Tensor:
        """p(b_t = 1 | s, a), ``(N, T)``: an option was chosen here, perhaps the same again; 1 at the first step."""
        return self._padded(self.flat_switches)

    @property
    def num_steps(self) -> int:
        """Total number of steps, without padding."""
        return int(self.lengths.sum())

    @property
    def log_likelihood_per_step(self) -> float:
        """Exact log-likelihood of the actions given the states, in nats per step."""
        return float(self.log_likelihood.double().sum()) / self.num_steps

    @property
    def flat_starts(self) -> Tensor:
        """True at the first step of each segment, including the first of the episode, ``(steps,)``."""
        starts = torch.ones_like(self.flat_options, dtype=torch.bool)
        starts[1:] = self.flat_options[1:] != self.flat_options[:-1]
        starts[self.places.first] = True
        return starts

    @property
    def starts(self) -> Tensor:
        """The same padded with false, ``(N, T)``."""
        return self._padded(self.flat_starts)

    def usage(self) -> Tensor:
        """Share of the steps that each option covers, ``(K,)``."""
        return torch.bincount(self.flat_options, minlength=self.num_options) / self.num_steps

    @property
    def used_options(self) -> int:
        """Number of options that cover at least :data:`IN_USE` of the steps."""
        return int((self.usage() >= IN_USE).sum())

    def episode(self, number: int) -> tuple[Tensor, Tensor]:
        """Options and switches of one episode, both ``(steps,)``."""
        places = self.places
        steps = slice(int(places.first[number]), int(places.ends[number]))
        return self.flat_options[steps], self.flat_switches[steps]

    def segments(self, episode: int) -> list[Segment]:
        """The segments of one episode, in order."""
        owner, count = torch.unique_consecutive(self.episode(episode)[0], return_counts=True)
        edges = [0, *count.cumsum(0).tolist()]
        return [Segment(option, a, b) for option, (a, b) in zip(owner.tolist(), pairwise(edges))]

    def segment_lengths(self) -> tuple[Tensor, Tensor]:
        """Option and length of every segment of every episode, both ``(segments,)``."""
        starts = self.flat_starts
        number = torch.cumsum(starts, 0) - 1  # index of the segment of each step, all episodes concatenated
        return self.flat_options[starts], torch.bincount(number)

    def segment_starts(self) -> tuple[Tensor, Tensor]:
        """Episode and first step of every segment of every episode, both ``(segments,)``."""
        places, at = self.places, self.flat_starts.nonzero().flatten()
        episode = places.episode_of(at)
        return episode, at - places.first[episode]

    @property
    def mean_length(self) -> float:
        """Mean number of steps of a segment; the end of an episode also ends its last segment."""
        return self.num_steps / int(self.flat_starts.sum())

    @property
    def mean_duration(self) -> float:
        """Mean number of steps between terminations, in expectation; the same option may be chosen again."""
        return self.num_steps / float(self.flat_switches.sum())

    def __len__(self) -> int:
        return len(self.lengths)

    def _repr_html_(self) -> str:
        shown = range(min(len(self), _SHOWN))
        longest = int(self.lengths[: len(shown)].max())
        names = self.episode_names or range(len(self))
        rows = [strip(f"episode {names[i]}", self.episode(i)[0].tolist(), "option {}".format, longest) for i in shown]
        return panel(repr(self), *rows)

    def __repr__(self) -> str:
        return (
            f"Segmentation({len(self)} episodes, {self.used_options} of {self.num_options} options in use, "
            f"mean segment length {self.mean_length:.1f}, {self.log_likelihood_per_step:.4f} nats per step)"
        )
