"""Segmentations: the option of every step of every episode."""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from .scores import boundaries

#: an option counts as in use if it covers at least this share of the steps
IN_USE = 0.01


class Segment(NamedTuple):
    """Consecutive steps with the same option: ``start <= t < stop``."""

    option: int
    start: int
    stop: int

    @property
    def length(self) -> int:
        """Number of steps."""
        return self.stop - self.start


@dataclass(frozen=True)
class Segmentation:
    """The option of every step of N episodes, and the statistics of their segments. Padding is ignored."""

    options: Tensor  # (N, T) integers; padding repeats the last option
    switches: Tensor  # (N, T) p(b_t = 1 | s, a): an option was chosen here, perhaps the same again; 1 at the first step
    lengths: Tensor  # (N,) steps of each episode
    log_likelihood: Tensor  # (N,) exact log p(a | s) of each episode, in nats
    num_options: int

    @property
    def mask(self) -> Tensor:
        """Steps that are not padding, ``(N, T)``."""
        return torch.arange(self.options.shape[1]) < self.lengths.unsqueeze(-1)

    @property
    def num_steps(self) -> int:
        """Total number of steps, without padding."""
        return int(self.lengths.sum())

    @property
    def log_likelihood_per_step(self) -> float:
        """Exact log-likelihood of the actions given the states, in nats per step."""
        return float(self.log_likelihood.double().sum()) / self.num_steps

    @property
    def starts(self) -> Tensor:
        """True at the first step of each segment, including the first of the episode, ``(N, T)``."""
        starts = boundaries(self.options, self.mask)
        starts[:, 0] = True
        return starts

    def usage(self) -> Tensor:
        """Share of the steps that each option covers, ``(K,)``."""
        return torch.bincount(self.options[self.mask], minlength=self.num_options) / self.num_steps

    @property
    def used_options(self) -> int:
        """Number of options that cover at least :data:`IN_USE` of the steps."""
        return int((self.usage() >= IN_USE).sum())

    def segments(self, episode: int) -> list[Segment]:
        """The segments of one episode, in order."""
        edges = [*self.starts[episode].nonzero().flatten().tolist(), int(self.lengths[episode])]
        return [Segment(int(self.options[episode, a]), a, b) for a, b in pairwise(edges)]

    def segment_lengths(self) -> tuple[Tensor, Tensor]:
        """Option and length of every segment of every episode, both ``(segments,)``."""
        mask, starts = self.mask, self.starts
        number = torch.cumsum(starts[mask], 0) - 1  # index of the segment of each step, all episodes concatenated
        return self.options[starts], torch.bincount(number)

    @property
    def mean_length(self) -> float:
        """Mean number of steps of a segment; the end of an episode also ends its last segment."""
        return self.num_steps / int(self.starts.sum())

    @property
    def mean_duration(self) -> float:
        """Mean number of steps between terminations, in expectation; the same option may be chosen again."""
        return self.num_steps / float(self.switches[self.mask].sum())

    def __len__(self) -> int:
        return len(self.options)

    def __repr__(self) -> str:
        return (
            f"Segmentation({len(self)} episodes, {self.used_options} of {self.num_options} options in use, "
            f"mean segment length {self.mean_length:.1f}, {self.log_likelihood_per_step:.4f} nats per step)"
        )
