"""The distribution of segment boundaries: cumulative Poisson lengths, truncated at the end of the episode."""

import copy
import math
from typing import TYPE_CHECKING, ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.nn.functional import one_hot

from pyro_options.distributions.log_space import safe_log
from pyro_options.distributions.one_hot_rows import OneHotRows
from pyro_options.errors import check

if TYPE_CHECKING:
    from .path import SegmentPath

#: log-probability of an impossible event; finite, so that gradients are
IMPOSSIBLE = -1e9


def poisson_lengths(rate: float, num_steps: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """log P(L = l) and log P(L >= l) of a Poisson length, for l = 0..T, both ``(T + 1,)``.

    :param like: determines dtype and device
    """
    longest = max(num_steps, math.ceil(rate)) + math.ceil(12 * math.sqrt(rate)) + 30  # the tail beyond is negligible
    length = torch.arange(longest + 1, dtype=torch.float64, device=like.device)
    log_prob = length * math.log(rate) - rate - torch.lgamma(length + 1)
    log_at_least = torch.logcumsumexp(log_prob.flip(0), 0).flip(0).clamp(max=0.0)
    return log_prob[: num_steps + 1].to(like), log_at_least[: num_steps + 1].to(like)


def segment_masks(boundaries: Tensor, mask: Tensor) -> Tensor:
    r"""The probability that each step belongs to each segment, ``(..., M, T)``; the sum over segments is one.

    Step t is in segment j if boundary :math:`j-1` is at or before t and boundary j is after it:
    :math:`m_j(t) = c_{j-1}(t) - c_j(t)` with :math:`c_j(t) = c_{j-1}(t)\sum_{u\le t} b_j(u)`, :math:`c_0 = 1` and
    :math:`c_M = 0`. Relaxed boundaries are treated as independent probabilities.

    :param boundaries: ``(..., M - 1, T + 1)``, one-hot or relaxed
    :param mask: unpadded steps ``(..., T)``
    """
    # rounding can take cumulative probabilities above one, which would make masks negative
    passed = torch.cumprod(torch.cumsum(boundaries[..., :-1], -1).clamp(max=1), -2)  # (..., M - 1, T)
    edges = torch.cat([torch.ones_like(passed[..., :1, :]), passed, torch.zeros_like(passed[..., :1, :])], -2)
    return (edges[..., :-1, :] - edges[..., 1:, :]) * mask.unsqueeze(-2)


class PoissonBoundaries(TorchDistribution):
    r"""The ends of the first ``M - 1`` of M segments; the last segment ends with the episode.

    .. math:: e_j = \min(e_{j-1} + l_j,\ n), \qquad l_j \sim \mathrm{Poisson}(\lambda), \qquad e_0 = 0

    n is the length of the episode. A boundary at position t means that step t is the first of the next segment; one at
    position n, that the remaining segments are empty. A value has event shape ``(M - 1, T + 1)``: one-hot over
    positions, or relaxed. The probability of a relaxed boundary is the average over its positions.

    :param rate: λ, the mean length of a segment
    :param num_segments: M, at least 2
    :param mask: unpadded steps ``(..., T)``
    :param dtype: of the samples

    References: Kipf et al. (2019), CompILE; Villecroze et al. (2022), algorithm 2.
    """

    arg_constraints: ClassVar[dict] = {}
    support = OneHotRows("boundaries of segments")

    def __init__(self, rate: float, num_segments: int, mask: Tensor, dtype: torch.dtype = torch.float32):
        check(rate > 0, "a mean length of segments > 0", rate)
        check(num_segments >= 2, "at least 2 segments", num_segments, "One segment is behaviour cloning.")
        self.rate, self.num_segments, self.step_mask, self.dtype = rate, num_segments, mask, dtype
        T = mask.shape[-1]
        super().__init__(mask.shape[:-1], torch.Size((num_segments - 1, T + 1)), validate_args=False)

    @property
    def lengths(self) -> Tensor:
        """n, ``(...)``."""
        return self.step_mask.sum(-1)

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        if shape == self.batch_shape:
            return self
        new = copy.copy(self)
        new.step_mask, new._batch_shape = self.step_mask.expand(shape + self.step_mask.shape[-1:]), shape
        return new

    def log_transition(self) -> Tensor:
        """log p(e_j = t | e_{j-1} = s), ``(..., T + 1, T + 1)``, indexed ``[s, t]``."""
        T = self.step_mask.shape[-1]
        like = torch.empty((), dtype=self.dtype, device=self.step_mask.device)
        log_prob, log_at_least = poisson_lengths(self.rate, T, like)
        time = torch.arange(T + 1, device=like.device)
        length = time - time.unsqueeze(-1)  # (s, t)
        inside, rest = log_prob[length.clamp(min=0)], log_at_least[length.clamp(min=0)]
        end = self.lengths[..., None, None]
        table = torch.where(time < end, inside, torch.where(time == end, rest, torch.full_like(rest, IMPOSSIBLE)))
        return torch.where(length >= 0, table, torch.full_like(table, IMPOSSIBLE))

    def _arrivals(self, before: Tensor) -> Tensor:
        """p(e_j = t), ``(..., M - 1, T + 1)``, from the distribution of each preceding boundary, of the same shape.

        The transition of :meth:`log_transition`, without a table per episode: only the column of the end differs
        between episodes.
        """
        log_prob, log_at_least = poisson_lengths(self.rate, self.step_mask.shape[-1], before)
        time = torch.arange(len(log_prob), device=before.device)
        length, end = time - time.unsqueeze(-1), self.lengths.unsqueeze(-1)
        nothing = before.new_zeros(())
        step = torch.where(length >= 0, log_prob.exp()[length.clamp(min=0)], nothing)  # (s, t)
        rest = torch.where(time <= end, log_at_least.exp()[(end - time).clamp(min=0)], nothing)  # (..., s)
        at_end = (before * rest.unsqueeze(-2)).sum(-1, keepdim=True)
        end = end.unsqueeze(-2)
        return torch.where(time < end, before @ step, torch.where(time == end, at_end, nothing))

    def log_prob(self, value):
        first = one_hot(torch.zeros_like(self.lengths), value.shape[-1]).to(value).unsqueeze(-2)
        before = torch.cat([first.expand(value[..., :1, :].shape), value[..., :-1, :]], -2)  # (..., M - 1, T + 1)
        return safe_log((self._arrivals(before) * value).sum(-1)).sum(-1)

    def sample(self, sample_shape=torch.Size()):
        shape = torch.Size(sample_shape) + self.batch_shape
        with torch.no_grad():
            rate = torch.full(shape + (self.num_segments - 1,), self.rate, device=self.step_mask.device)
            ends = torch.cumsum(torch.poisson(rate), -1).long()
            ends = torch.minimum(ends, self.lengths.unsqueeze(-1))
            return one_hot(ends, self.event_shape[-1]).to(self.dtype)

    def rsample(self, sample_shape=torch.Size()):
        """The same as :meth:`sample`: discrete boundaries carry no gradient."""
        return self.sample(sample_shape)

    def marginalize(self, skills) -> "SegmentPath":
        """Boundaries and skills as one :class:`SegmentPath`, which can be summed out of the actions."""
        from .path import SegmentPath

        return SegmentPath(skills.log_weights, self)
