"""The settings of CompILE's segments, and terminations that imitate them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_options.errors import check
from pyro_options.options.policies import OptionPolicy, Termination

from .boundaries import PoissonBoundaries
from .path import SegmentPath

#: termination logit of skills that end only at ``max_duration``
_NEVER = -40.0


@dataclass(frozen=True)
class PoissonSegments:
    """Episodes of at most ``count`` segments of Poisson length; the last segment ends with the episode."""

    count: int  # M
    length: float  # λ, the mean of the Poisson distribution

    def __post_init__(self) -> None:
        check(self.count >= 2, "at least 2 segments", self.count)
        check(self.length > 0, "a mean length of segments > 0", self.length)

    def path(self, log_weights: Tensor, mask: Tensor) -> SegmentPath:
        """The distribution of segments and skills in episodes with this mask ``(..., T)``."""
        return SegmentPath(log_weights, PoissonBoundaries(self.length, self.count, mask, log_weights.dtype))

    @torch.no_grad()
    def termination(self, policy: OptionPolicy, max_duration: int | None) -> Termination:
        """Terminations, independent of the state, for skills that run in an environment.

        With ``max_duration`` skills never terminate before it, as in the paper. Without, they terminate at each step
        with the same probability, after λ steps on average: a wrapper passes the state, not the time since the start.
        """
        termination = Termination(policy.state_dim, policy.num_options)
        heads = termination.heads
        heads.weight.zero_()
        stop = min(1 / self.length, 0.999)
        heads.bias.fill_(_NEVER if max_duration is not None else math.log(stop / (1 - stop)))
        return termination.to(policy.heads.weight)
