"""How CompILE's skills follow each other."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_options.errors import check
from pyro_options.options.policies import CategoricalPolicy, GaussianPolicy, Termination

from .boundaries import PoissonBoundaries
from .path import SegmentPath

#: logit of a termination that does not happen before the cap
_NEVER = -40.0


@dataclass(frozen=True)
class PoissonSegments:
    """Episodes of at most ``count`` segments, each of Poisson length; the last one takes what is left."""

    count: int
    length: float  # the mean of the Poisson distribution

    def __post_init__(self) -> None:
        check(self.count >= 2, "at least 2 segments", self.count)
        check(self.length > 0, "a mean length of segments > 0", self.length)

    def path(self, log_weights: Tensor, mask: Tensor) -> SegmentPath:
        """The distribution of skills over the steps of episodes."""
        return SegmentPath(log_weights, PoissonBoundaries(self.length, self.count, mask, log_weights.dtype))

    @torch.no_grad()
    def termination(self, policy: CategoricalPolicy | GaussianPolicy, max_duration: int | None) -> Termination:
        """When its skills stop as actions of an environment, whatever the state.

        At the cap if there is one, as in the paper. Without, after as many steps on average as a segment has, each step
        with the same chance: a wrapper asks a skill whether it stops here, not how long it has been on.
        """
        termination = Termination(policy.state_dim, policy.num_options)
        heads = termination.heads
        heads.weight.zero_()
        stop = min(1 / self.length, 0.999)
        heads.bias.fill_(_NEVER if max_duration is not None else math.log(stop / (1 - stop)))
        return termination.to(policy.heads.weight)
