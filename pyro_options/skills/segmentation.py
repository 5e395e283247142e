"""Which option was on, step by step."""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from .scores import boundaries

#: share of the steps from which on an option counts as in use
IN_USE = 0.01


class Segment(NamedTuple):
    """A stretch of steps with the same option: ``start <= t < stop``."""

    option: int
    start: int
    stop: int

    @property
    def length(self) -> int:
        """Steps in this segment."""
        return self.stop - self.start


@dataclass(frozen=True)
class Segmentation:
    """Episodes cut into options. Padded steps never count."""

    options: Tensor  # (N, T) integers; padded steps repeat the last one
    switches: Tensor  # (N, T) p(b_t = 1 | a): an option was chosen here, perhaps the same again; 1 at the first step
    lengths: Tensor  # (N,) steps in use of each episode
    log_likelihood: Tensor  # (N,) exact log p(a | s) of each episode, in nats
    num_options: int

    @property
    def mask(self) -> Tensor:
        """Steps in use, ``(N, T)``."""
        return torch.arange(self.options.shape[1]) < self.lengths.unsqueeze(-1)

    @property
    def num_steps(self) -> int:
        """Steps in use, over all episodes."""
        return int(self.lengths.sum())

    @property
    def log_likelihood_per_step(self) -> float:
        """Exact log-likelihood of the actions, in nats per step."""
        return float(self.log_likelihood.double().sum()) / self.num_steps

    @property
    def starts(self) -> Tensor:
        """``(N, T)`` bits: the first step of a segment, that of the episode included."""
        starts = boundaries(self.options, self.mask)
        starts[:, 0] = True
        return starts

    def usage(self) -> Tensor:
        """Share of the steps of each option, ``(K,)``."""
        return torch.bincount(self.options[self.mask], minlength=self.num_options) / self.num_steps

    @property
    def used_options(self) -> int:
        """Options that cover at least :data:`IN_USE` of the steps."""
        return int((self.usage() >= IN_USE).sum())

    def segments(self, episode: int) -> list[Segment]:
        """The segments of one episode, in order."""
        edges = [*self.starts[episode].nonzero().flatten().tolist(), int(self.lengths[episode])]
        return [Segment(int(self.options[episode, a]), a, b) for a, b in pairwise(edges)]

    def segment_lengths(self) -> tuple[Tensor, Tensor]:
        """Option and length of every segment of every episode, both ``(segments,)``."""
        mask, starts = self.mask, self.starts
        number = torch.cumsum(starts[mask], 0) - 1  # steps in use, one episode after the other
        return self.options[starts], torch.bincount(number)

    @property
    def mean_length(self) -> float:
        """Steps until another option takes over, on average; the end of an episode cuts its last segment short."""
        return self.num_steps / int(self.starts.sum())

    @property
    def mean_duration(self) -> float:
        """Expected steps between two choices of an option, where the same may be chosen again."""
        return self.num_steps / float(self.switches[self.mask].sum())

    def __len__(self) -> int:
        return len(self.options)

    def __repr__(self) -> str:
        return (
            f"Segmentation({len(self)} episodes, {self.used_options} of {self.num_options} options in use, "
            f"mean segment length {self.mean_length:.1f}, {self.log_likelihood_per_step:.4f} nats per step)"
        )
