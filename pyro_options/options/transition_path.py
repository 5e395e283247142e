"""The distribution of option paths in which the next option depends on the one that terminated."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from pyro_options.distributions.chain_marginal import chain_log_marginal, chain_states
from pyro_options.distributions.log_space import log_mix, safe_log
from pyro_options.distributions.markov import chain_best_path, chain_sample_path
from pyro_options.distributions.sticks import with_unassigned
from pyro_options.errors import check

from .marginal import mask_out
from .path import OptionPath, PathPosterior, encode_path
from .recursion import NEVER


class TransitionPath(OptionPath):
    r"""An :class:`OptionPath` in which the next option is drawn from the row of the option that terminated.

    .. math:: p(\zeta) = \pi_{0,h_0}\prod_{t\ge 1}
        [\psi_{h_{t-1}}(s_t)\,\pi_{h_{t-1},h_t}]^{b_t}
        [(1-\psi_{h_{t-1}}(s_t))\,\delta_{h_t=h_{t-1}}]^{1-b_t}, \qquad b_0 = 1

    Sums over paths cost :math:`O(TK^2)`, as one matrix product per step for all episodes.

    :param log_weights: log π, ``(..., 1 + K, K)``: the first row is for the first option, the others follow each option
    :param termination_logits: logit ψ_k(s_t), shape ``(..., T, K)``; entry ``t = 0`` is not used
    :param mask: unpadded steps, shape ``(..., T)``; all of them by default
    """

    def __init__(self, log_weights, termination_logits, mask=None, validate_args=None):
        K = termination_logits.shape[-1]
        fits = log_weights.shape[-2:] == (K + 1, K)
        check(fits, f"log_weights of shape {(K + 1, K)}", tuple(log_weights.shape))
        super().__init__(log_weights[..., 0, :], termination_logits, mask)
        self.log_rows = log_weights[..., 1:, :]

    def _weights(self) -> Tensor:
        return torch.cat([self.log_weights.unsqueeze(-2), self.log_rows], -2)

    def expand(self, batch_shape, _instance=None):
        new = super().expand(batch_shape)
        if new is not self:
            new.log_rows = self.log_rows.expand(new.batch_shape + self.log_rows.shape[-2:])
        return new

    def reweighted(self, log_weights: Tensor) -> "TransitionPath":
        """The same distribution with other weights ``(..., 1 + K, K)``."""
        return TransitionPath(log_weights, self.termination_logits, self.step_mask)

    def _chain(self, emission: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The arguments of the recursions of :mod:`~pyro_options.distributions.markov`, time-major."""
        _, logits, emission, mask = self._broadcast(emission)
        logits, emission = mask_out(logits, emission, mask)
        return self.log_weights, self.log_rows, logits.movedim(-2, 0), emission.movedim(-2, 0)

    def log_marginal(self, emission: Tensor) -> Tensor:
        return chain_log_marginal(*self._chain(emission))

    def posterior(self, emission: Tensor) -> PathPosterior:
        options, starts, log_marginal = chain_states(*self._chain(emission))
        if self.step_mask is not None:
            options, starts = options * self.step_mask.unsqueeze(-1), starts * self.step_mask.unsqueeze(-1)
        return PathPosterior(options, starts, log_marginal)

    def viterbi(self, emission: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            options, log_prob = chain_best_path(*self._chain(emission))
        return options.movedim(0, -1), log_prob

    def sample_posterior(self, emission: Tensor) -> Tensor:
        with torch.no_grad():
            options, terminations = chain_sample_path(*self._chain(emission))
            path = encode_path(options.movedim(0, -1), terminations.movedim(0, -1), self.num_options)
        return path.to(self.log_weights.dtype)

    def normalized(self) -> "TransitionPath":
        return self.reweighted(torch.log_softmax(self._weights(), -1))

    def sample(self, sample_shape=torch.Size()):
        T, K = self.termination_logits.shape[-2:]
        with torch.no_grad():
            logits = self.termination_logits.expand(torch.Size(sample_shape) + self.batch_shape + (T, K))
            if self.step_mask is not None:
                logits = torch.where(self.step_mask.unsqueeze(-1), logits, torch.full_like(logits, -torch.inf))
            logits = pad(logits, (0, 1), value=NEVER)  # an option not yet created, the last, never terminates
            log_first, log_rows = with_unassigned(self.log_weights), pad(with_unassigned(self.log_rows), (0, 0, 0, 1))
            shape = logits.shape[:-2]
            log_rows = log_rows.expand(shape + log_rows.shape[-2:])
            option = _draw(log_first.expand(shape + (K + 1,)))
            options, terminations = [option], [torch.ones_like(option)]
            for t in range(1, T):
                stop = torch.sigmoid(logits[..., t, :].gather(-1, option.unsqueeze(-1)).squeeze(-1))
                stop = stop > torch.rand_like(stop)
                own = option[..., None, None].expand(shape + (1, K + 1))
                option = torch.where(stop, _draw(log_rows.gather(-2, own).squeeze(-2)), option)
                options.append(option)
                terminations.append(stop.to(option.dtype))
            path = encode_path(torch.stack(options, -1), torch.stack(terminations, -1), K + 1)[..., :-1]
        return path.to(self.log_weights.dtype)

    def log_prob(self, value):
        """Log-probability of a discrete path; for a relaxed one, of the expectation over both ends of a transition.

        Zero probabilities are clamped to the smallest normal number: an impossible path has a finite log-probability.
        """
        b, h = value[..., 0], value[..., 1:]
        unborn = (h == 0).all(-1)  # (..., T): an option not yet created
        logits = self.termination_logits[..., 1:, :]
        if self.step_mask is not None:  # masking the result alone would let a NaN in the padding into the gradients
            logits = torch.where(self.step_mask[..., 1:, None], logits, torch.zeros_like(logits))
        arrive = log_mix(h[..., 1:, None, :], self.log_rows.unsqueeze(-3))  # (..., T - 1, K): from each option
        left = with_unassigned(self.log_rows)[..., -1].unsqueeze(-2)
        arrive = torch.where(unborn[..., 1:, None], left, arrive)
        log_move = log_mix(h[..., :-1, :], logsigmoid(logits) + arrive)
        log_stay = torch.where(unborn[..., :-1], 0.0, log_mix(h[..., :-1, :], logsigmoid(-logits)))
        overlap = torch.minimum(h[..., 1:, :], h[..., :-1, :]).sum(-1)  # 1 - |h_t - h_{t-1}|_1 / 2
        overlap = torch.where(unborn[..., 1:] & unborn[..., :-1], 1.0, overlap)
        later = torch.logaddexp(
            safe_log(b[..., 1:]) + log_move, safe_log(1 - b[..., 1:]) + log_stay + safe_log(overlap)
        )
        log_first = log_mix(h[..., :1, :], self.log_weights.unsqueeze(-2))
        log_first = torch.where(unborn[..., :1], with_unassigned(self.log_weights)[..., -1:], log_first)
        first = safe_log(b[..., :1]) + log_first
        return self._masked(torch.cat([first, later], -1)).sum(-1)


def _draw(logits: Tensor) -> Tensor:
    return torch.distributions.Categorical(logits=logits, validate_args=False).sample()
