"""The joint distribution of segments and skills as a path: samples, and exact marginal, posterior and Viterbi."""

from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.nn.functional import one_hot, pad

from pyro_options.distributions.one_hot_rows import OneHotRows
from pyro_options.distributions.sticks import with_unassigned
from pyro_options.options.path import MarginalActions, PathPosterior, encode_path

from .boundaries import IMPOSSIBLE, PoissonBoundaries, segment_masks
from .marginal import compiled_log_marginal, run_kernel

_CELLS = 2**24  # largest number of entries in the tables of segments of a chunk of episodes


def _unflatten(shape: torch.Size, *tensors: Tensor) -> list[Tensor]:
    """Tensors of one batch dimension with this batch shape."""
    return [x.reshape(shape + x.shape[1:]) for x in tensors]


class SegmentPath(TorchDistribution):
    r"""Boundaries and skills of M segments, which dynamic programming over segments sums out of the actions.

    .. math:: p(a) = \sum_{e, h}\prod_j p(e_j\mid e_{j-1})\,\eta_{h_j}\prod_{t=e_{j-1}}^{e_j-1}\pi_{h_j}(a_t\mid s_t)

    in :math:`O(T^2(K + M))`, because the skill of each segment is summed out separately. The interface is that of
    :class:`~pyro_options.options.OptionPath`, with paths of the same event shape ``(T, K + 1)``.

    If the weights sum to less than one, a path that draws a skill not yet created, be it for an empty segment, is all
    zeros: no action is possible under it.

    :param log_weights: log η, ``(K,)`` or ``(..., K)``
    :param boundaries: the distribution of the ends of segments
    """

    arg_constraints: ClassVar[dict] = {}
    support = OneHotRows("a path of segments", flags=1)

    def __init__(self, log_weights: Tensor, boundaries: PoissonBoundaries):
        self.log_weights, self.boundaries = log_weights, boundaries
        event = torch.Size((boundaries.step_mask.shape[-1], log_weights.shape[-1] + 1))
        shape = torch.broadcast_shapes(log_weights.shape[:-1], boundaries.batch_shape)
        super().__init__(shape, event, validate_args=False)

    @property
    def num_options(self) -> int:
        """K."""
        return self.log_weights.shape[-1]

    @property
    def step_mask(self) -> Tensor:
        """Mask of the unpadded steps."""
        return self.boundaries.step_mask

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        return SegmentPath(self.log_weights.expand(shape + (-1,)), self.boundaries.expand(shape))

    def normalized(self) -> "SegmentPath":
        """The distribution with weights that sum to one, whose paths use the K skills only: to generate data."""
        return SegmentPath(torch.log_softmax(self.log_weights, -1), self.boundaries)

    def sample(self, sample_shape=torch.Size()):
        """Discrete paths ``(..., T, K + 1)``, with b_t = 1 where a segment begins."""
        with torch.no_grad():
            ends, M = self.boundaries.expand(self.batch_shape).sample(sample_shape), self.boundaries.num_segments
            draws = torch.distributions.Categorical(logits=with_unassigned(self.log_weights), validate_args=False)
            skills = draws.expand(self.batch_shape).sample(torch.Size([M]) + torch.Size(sample_shape)).movedim(0, -1)
            segment = segment_masks(ends, torch.ones_like(self.step_mask)).argmax(-2)  # (..., T)
            starts = pad(segment[..., 1:] != segment[..., :-1], (1, 0), value=True)
            path = encode_path(skills.gather(-1, segment), starts & self.step_mask, self.num_options + 1)[..., :-1]
            possible = (skills < self.num_options).all(-1)[..., None, None]
            return (path * possible).to(self.log_weights)

    def _scores(self, emission: Tensor, starts: Tensor | None = None, best: bool = False) -> Tensor:
        r"""log Σ_k η_k Π_t π_k(a_t) of every possible segment, ``(..., T + 1, T + 1)``, indexed by start and end.

        :param starts: ``(..., T, K)``, added to segments that begin at a step; their gradient is the posterior of that
        :param best: maximize over skills instead of summing
        """
        emission = torch.where(self.step_mask.unsqueeze(-1), emission, torch.zeros_like(emission))
        so_far = pad(torch.cumsum(emission, -2), (0, 0, 1, 0))  # (..., T + 1, K)
        begin = self.log_weights.unsqueeze(-2) - so_far
        if starts is not None:
            begin = begin + pad(starts, (0, 0, 0, 1))
        each = begin.unsqueeze(-2) + so_far.unsqueeze(-3)  # (..., s, t, K)
        score = each.max(-1).values if best else torch.logsumexp(each, -1)
        T = self.event_shape[0]
        time = torch.arange(T + 1, device=score.device)
        empty = torch.logsumexp(self.log_weights, -1)[..., None, None]
        score = torch.where(time == time.unsqueeze(-1), empty, score)
        return torch.where(time >= time.unsqueeze(-1), score, torch.full_like(score, IMPOSSIBLE))

    def _start(self, like: Tensor) -> Tensor:
        """The initial message, log p(e_0 = t) with e_0 = 0, ``(..., T + 1)``."""
        at_zero = torch.full(self.batch_shape + (self.event_shape[0] + 1,), IMPOSSIBLE).to(like)
        at_zero[..., 0] = 0.0
        return at_zero

    def _finish(self, message: Tensor, scores: Tensor) -> Tensor:
        """Adds the last segment, from each possible start to the end of the episode, ``(..., T + 1)``."""
        end = self.boundaries.lengths[..., None, None].expand(scores.shape[:-1] + (1,))
        return message + scores.gather(-1, end).squeeze(-1)

    def _log_marginal(self, emission: Tensor, starts: Tensor | None = None) -> Tensor:
        scores = self._scores(emission, starts)
        step = self.boundaries.log_transition().to(scores) + scores
        message = self._start(scores)
        for _ in range(self.boundaries.num_segments - 1):
            message = torch.logsumexp(message.unsqueeze(-1) + step, -2)
        return torch.logsumexp(self._finish(message, scores), -1)

    def _flat(self, emission: Tensor) -> tuple["SegmentPath", Tensor, torch.Size]:
        """This path and the emission with a single batch dimension, and the batch shape that they had."""
        shape = torch.broadcast_shapes(self.batch_shape, emission.shape[:-2])
        T, K = emission.shape[-2:]
        mask = self.step_mask.expand(shape + (T,)).reshape(-1, T)
        path = SegmentPath(self.log_weights.expand(shape + (K,)).reshape(-1, K), self._with_mask(mask))
        return path, emission.expand(shape + (T, K)).reshape(-1, T, K), shape

    def _with_mask(self, mask: Tensor) -> PoissonBoundaries:
        ends = self.boundaries
        return PoissonBoundaries(ends.rate, ends.num_segments, mask, ends.dtype)

    def _chunks(self, emission: Tensor) -> list[tuple["SegmentPath", slice]]:
        """Splits the batch, because the table of segments has O(T² K) entries per episode."""
        T, K = emission.shape[-2:]
        size = max(1, _CELLS // ((T + 1) ** 2 * (K + 2)))
        rows = [slice(i, i + size) for i in range(0, len(emission), size)]
        return [(SegmentPath(self.log_weights[row], self._with_mask(self.step_mask[row])), row) for row in rows]

    def log_marginal(self, emission: Tensor) -> Tensor:
        """log p(a) with boundaries and skills summed out, shape ``(...)``.

        :param emission: log π_k(a_t | s_t), ``(..., T, K)``
        """
        path, emission, shape = self._flat(emission)
        value = compiled_log_marginal(path.log_weights, path.boundaries, emission)
        if value is None:
            value = torch.cat([part._log_marginal(emission[rows]) for part, rows in path._chunks(emission)])
        return value.reshape(shape)

    def posterior(self, emission: Tensor) -> PathPosterior:
        """Posterior marginals of skills and segment starts, the gradients of the log marginal (Fisher's identity)."""
        path, emission, shape = self._flat(emission.detach())
        with torch.no_grad():
            found = run_kernel(path.log_weights, path.boundaries, emission, gradients=True, starts=True)
        if found is not None:
            return PathPosterior(*_unflatten(shape, found.emission, found.starts, found.value))
        parts = []
        for part, rows in path._chunks(emission):
            with torch.enable_grad():
                own = emission[rows].detach().requires_grad_()
                starts = torch.zeros_like(own, requires_grad=True)
                value = part._log_marginal(own, starts)
                parts.append((*torch.autograd.grad(value.sum(), (own, starts)), value.detach()))
        options, begun, value = (torch.cat(part) for part in zip(*parts))
        keep = path.step_mask.unsqueeze(-1)
        # differences of cumulative sums, which rounding can make negative
        return PathPosterior(*_unflatten(shape, (options * keep).clamp(min=0), (begun * keep).clamp(min=0), value))

    @torch.no_grad()
    def viterbi(self, emission: Tensor) -> tuple[Tensor, Tensor]:
        """The most probable segments and skills.

        :returns: options ``(..., T)`` (padded steps repeat the last one) and joint log-probabilities ``(...)``
        """
        path, emission, shape = self._flat(emission)
        parts = [part._viterbi(emission[rows]) for part, rows in path._chunks(emission)]
        options, value = _unflatten(shape, *(torch.cat(part) for part in zip(*parts)))
        return options, value

    def _viterbi(self, emission: Tensor) -> tuple[Tensor, Tensor]:
        scores = self._scores(emission, best=True)
        step = self.boundaries.log_transition().to(scores) + scores
        message, back = self._start(scores), []
        for _ in range(self.boundaries.num_segments - 1):
            message, source = (message.unsqueeze(-1) + step).max(-2)
            back.append(source)
        value, position = self._finish(message, scores).max(-1)
        ends = [position]
        for source in reversed(back[1:]):
            ends.append(source.gather(-1, ends[-1].unsqueeze(-1)).squeeze(-1))
        boundaries = one_hot(torch.stack(ends[::-1], -1), self.event_shape[0] + 1).to(emission)
        masks = segment_masks(boundaries, torch.ones_like(self.step_mask))  # (..., M, T)
        emission = torch.where(self.step_mask.unsqueeze(-1), emission, torch.zeros_like(emission))
        skill = (self.log_weights.unsqueeze(-2) + masks @ emission).argmax(-1)  # (..., M)
        options = skill.gather(-1, masks.argmax(-2))
        last = options.gather(-1, (self.boundaries.lengths - 1).unsqueeze(-1))
        return torch.where(self.step_mask, options, last), value

    #: whether :meth:`reweighted` is possible, as in :class:`~pyro_options.options.OptionPath`
    reweightable = True

    def reweighted(self, log_weights: Tensor) -> "SegmentPath":
        """The same distribution with other weights, ``(K,)`` or ``(..., K)``."""
        return SegmentPath(log_weights, self.boundaries)

    def marginalize(self, likelihood) -> MarginalActions:
        """The actions with boundaries and skills summed out."""
        return MarginalActions(self, likelihood)
