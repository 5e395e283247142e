"""The joint distribution of segments and skills as a path: samples, and exact marginal, posterior and Viterbi."""

from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.nn.functional import one_hot, pad

from pyro_options.options.path import MarginalActions, PathPosterior, encode_path

from .boundaries import IMPOSSIBLE, PoissonBoundaries, segment_masks
from .marginal import compiled_log_marginal, run_kernel

_CELLS = 2**24  # largest number of entries in the tables of segments of a chunk of episodes


class SegmentPath(TorchDistribution):
    r"""Boundaries and skills of M segments, which dynamic programming over segments sums out of the actions.

    .. math:: p(a) = \sum_{e, h}\prod_j p(e_j\mid e_{j-1})\,\eta_{h_j}\prod_{t=e_{j-1}}^{e_j-1}\pi_{h_j}(a_t\mid s_t)

    in :math:`O(T^2(K + M))`, because the skill of each segment is summed out separately. The interface is that of
    :class:`~pyro_options.options.OptionPath`, with paths of the same event shape ``(T, K + 1)``.

    :param log_weights: log η, ``(K,)``
    :param boundaries: the distribution of the ends of segments
    """

    arg_constraints: ClassVar[dict] = {}

    def __init__(self, log_weights: Tensor, boundaries: PoissonBoundaries):
        self.log_weights, self.boundaries = log_weights, boundaries
        event = torch.Size((boundaries.step_mask.shape[-1], len(log_weights) + 1))
        super().__init__(boundaries.batch_shape, event, validate_args=False)

    @property
    def num_options(self) -> int:
        """K."""
        return len(self.log_weights)

    @property
    def step_mask(self) -> Tensor:
        """Mask of the unpadded steps."""
        return self.boundaries.step_mask

    def expand(self, batch_shape, _instance=None):
        return SegmentPath(self.log_weights, self.boundaries.expand(batch_shape))

    def sample(self, sample_shape=torch.Size()):
        """Discrete paths ``(..., T, K + 1)``, with b_t = 1 where a segment begins."""
        with torch.no_grad():
            ends = self.boundaries.sample(sample_shape)
            M, weights = self.boundaries.num_segments, self.log_weights
            skills = torch.distributions.Categorical(logits=weights, validate_args=False).sample(ends.shape[:-2] + (M,))
            segment = segment_masks(ends, torch.ones_like(self.step_mask)).argmax(-2)  # (..., T)
            starts = pad(segment[..., 1:] != segment[..., :-1], (1, 0), value=True)
            return encode_path(skills.gather(-1, segment), starts & self.step_mask, self.num_options).to(weights)

    def _scores(self, emission: Tensor, starts: Tensor | None = None, best: bool = False) -> Tensor:
        r"""log Σ_k η_k Π_t π_k(a_t) of every possible segment, ``(..., T + 1, T + 1)``, indexed by start and end.

        :param starts: ``(..., T, K)``, added to segments that begin at a step; their gradient is the posterior of that
        :param best: maximize over skills instead of summing
        """
        emission = torch.where(self.step_mask.unsqueeze(-1), emission, torch.zeros_like(emission))
        so_far = pad(torch.cumsum(emission, -2), (0, 0, 1, 0))  # (..., T + 1, K)
        begin = self.log_weights - so_far
        if starts is not None:
            begin = begin + pad(starts, (0, 0, 0, 1))
        each = begin.unsqueeze(-2) + so_far.unsqueeze(-3)  # (..., s, t, K)
        score = each.max(-1).values if best else torch.logsumexp(each, -1)
        T = self.event_shape[0]
        time = torch.arange(T + 1, device=score.device)
        empty = torch.logsumexp(self.log_weights, -1)
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

    def _chunks(self, emission: Tensor) -> list[tuple["SegmentPath", slice]]:
        """Splits the batch, because the table of segments has O(T² K) entries per episode."""
        if not self.batch_shape:
            return [(self, slice(None))]
        T, K = emission.shape[-2:]
        size = max(1, _CELLS // ((T + 1) ** 2 * (K + 2)))
        rows = [slice(i, i + size) for i in range(0, self.batch_shape[0], size)]
        return [(self._rows(row), row) for row in rows]

    def _rows(self, rows: slice) -> "SegmentPath":
        ends = self.boundaries
        fewer = PoissonBoundaries(ends.rate, ends.num_segments, ends.step_mask[rows], ends.dtype)
        return SegmentPath(self.log_weights, fewer)

    def log_marginal(self, emission: Tensor) -> Tensor:
        """log p(a) with boundaries and skills summed out, shape ``(...)``.

        :param emission: log π_k(a_t | s_t), ``(..., T, K)``
        """
        compiled = compiled_log_marginal(self.log_weights, self.boundaries, emission)
        if compiled is not None:
            return compiled
        parts = [path._log_marginal(emission[rows]) for path, rows in self._chunks(emission)]
        return torch.cat(parts) if self.batch_shape else parts[0]

    def posterior(self, emission: Tensor) -> PathPosterior:
        """Posterior marginals of skills and segment starts, the gradients of the log marginal (Fisher's identity)."""
        with torch.no_grad():
            found = run_kernel(self.log_weights, self.boundaries, emission, gradients=True, starts=True)
        if found is not None:
            options, begun = found.emission.reshape(emission.shape), found.starts.reshape(emission.shape)
            return PathPosterior(options, begun, found.value.reshape(emission.shape[:-2]))
        parts = []
        for path, rows in self._chunks(emission):
            with torch.enable_grad():
                own = emission[rows].detach().requires_grad_()
                starts = torch.zeros_like(own, requires_grad=True)
                value = path._log_marginal(own, starts)
                parts.append((*torch.autograd.grad(value.sum(), (own, starts)), value.detach()))
        options, begun, value = (torch.cat(part) if self.batch_shape else part[0] for part in zip(*parts))
        keep = self.step_mask.unsqueeze(-1)
        # differences of cumulative sums, which rounding can make negative
        return PathPosterior((options * keep).clamp(min=0), (begun * keep).clamp(min=0), value)

    @torch.no_grad()
    def viterbi(self, emission: Tensor) -> tuple[Tensor, Tensor]:
        """The most probable segments and skills.

        :returns: options ``(..., T)`` (padded steps repeat the last one) and joint log-probabilities ``(...)``
        """
        parts = [path._viterbi(emission[rows]) for path, rows in self._chunks(emission)]
        options, value = (torch.cat(part) if self.batch_shape else part[0] for part in zip(*parts))
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
        skill = (self.log_weights + masks @ emission).argmax(-1)  # (..., M)
        options = skill.gather(-1, masks.argmax(-2))
        last = options.gather(-1, (self.boundaries.lengths - 1).unsqueeze(-1))
        return torch.where(self.step_mask, options, last), value

    #: whether :meth:`reweighted` is possible, as in :class:`~pyro_options.options.OptionPath`
    reweightable = True

    def reweighted(self, log_weights: Tensor) -> "SegmentPath":
        """The same distribution with other weights ``(K,)``."""
        return SegmentPath(log_weights, self.boundaries)

    def marginalize(self, likelihood) -> MarginalActions:
        """The actions with boundaries and skills summed out."""
        return MarginalActions(self, likelihood)
