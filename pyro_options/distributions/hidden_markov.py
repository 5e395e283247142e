"""Sequences from a hidden Markov model, with the states summed out."""

from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor

from pyro_options.errors import check

from .chain_marginal import chain_log_marginal, chain_states
from .markov import ALWAYS, NEVER, chain_best_path, chain_sample_path


class HiddenMarkov(TorchDistribution):
    r"""Sequences of a hidden Markov model whose transition probabilities may sum to less than one.

    .. math:: p(x) = \sum_h \pi_{0,h_0}\,p_{h_0}(x_0)\prod_{t\ge 1}\pi_{h_{t-1},h_t}\,p_{h_t}(x_t)

    The mass that a row leaves is that of states not yet created. Sums over paths cost :math:`O(TK^2)`.

    :param log_weights: log π, ``(..., 1 + K, K)``: the first row is for the first step, the others follow each state
    :param components: :math:`p_k`, a distribution of batch shape ``(K,)`` or ``(..., T, K)``
    :param mask: unpadded steps ``(..., T)``
    """

    arg_constraints: ClassVar[dict] = {}

    def __init__(self, log_weights, components, mask: Tensor, validate_args=None):
        K = log_weights.shape[-1]
        expected = f"log_weights (..., 1 + K, K) and components of batch shape (..., K), K = {K},"
        given = tuple(log_weights.shape), tuple(components.batch_shape)
        check(log_weights.shape[-2:] == (K + 1, K) and components.batch_shape[-1:] == (K,), expected, given)
        self.log_weights, self.components, self.step_mask = log_weights, components, mask
        event = mask.shape[-1:] + components.event_shape
        batch_shape = torch.broadcast_shapes(log_weights.shape[:-2], mask.shape[:-1])
        super().__init__(batch_shape, event, validate_args=False)

    @property
    def support(self):
        return self.components.support

    def expand(self, batch_shape, _instance=None):
        mask = self.step_mask.expand(torch.Size(batch_shape) + self.step_mask.shape[-1:])
        return HiddenMarkov(self.log_weights, self.components, mask)

    def component_log_prob(self, value: Tensor) -> Tensor:
        """``(..., T, K)`` log p_k(x_t); zero in padded steps."""
        log_prob = self.components.log_prob(value.unsqueeze(-1 - len(self.components.event_shape)))
        return torch.where(self.step_mask.unsqueeze(-1), log_prob, torch.zeros_like(log_prob))

    def _inputs(self, value: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        emission = self.component_log_prob(value)
        shape = torch.broadcast_shapes(self.batch_shape, emission.shape[:-2])
        emission = emission.expand(shape + emission.shape[-2:]).movedim(-2, 0)  # (T, ..., K)
        mask = self.step_mask.movedim(-1, 0).unsqueeze(-1).expand_as(emission)
        leave = torch.where(mask, emission.new_tensor(ALWAYS), emission.new_tensor(NEVER))
        return self.log_weights[..., 0, :], self.log_weights[..., 1:, :], leave, emission

    def log_prob(self, value):
        return chain_log_marginal(*self._inputs(value))

    def responsibilities(self, value: Tensor) -> Tensor:
        """``(..., T, K)`` p(h_t = k | x); zero in padded steps."""
        return chain_states(*self._inputs(value))[0] * self.step_mask.unsqueeze(-1)

    def weighed(self, value: Tensor):
        """The log-probability of ``value`` as a function of the log weights; everything else is computed once, here."""
        _, _, leave, emission = self._inputs(value)
        return lambda log_weights: chain_log_marginal(log_weights[..., 0, :], log_weights[..., 1:, :], leave, emission)

    def viterbi(self, value: Tensor) -> Tensor:
        """The most probable states ``(..., T)``; padded steps repeat the last one."""
        with torch.no_grad():
            return chain_best_path(*self._inputs(value))[0].movedim(0, -1)

    def sample_components(self, value: Tensor) -> Tensor:
        """States ``(..., T)`` drawn from their joint posterior."""
        with torch.no_grad():
            return chain_sample_path(*self._inputs(value))[0].movedim(0, -1)

    def sample(self, sample_shape=torch.Size()):
        """Sequences from the K states, with the rows renormalized to sum to one; padded steps are zero."""
        with torch.no_grad():
            shape = torch.Size(sample_shape) + self.batch_shape
            K = self.log_weights.shape[-1]
            rows = self.log_weights[..., 1:, :].expand(shape + (K, K))
            states = [self._draw(self.log_weights[..., 0, :].expand(shape + (K,)))]
            for _ in range(self.step_mask.shape[-1] - 1):
                own = states[-1][..., None, None].expand(shape + (1, K))
                states.append(self._draw(rows.gather(-2, own).squeeze(-2)))
            chosen = torch.stack(states, -1)  # (..., T)
            event = self.components.event_shape
            if len(self.components.batch_shape) == 1:
                drawn = self.components.sample(chosen.shape)
            else:
                drawn = self.components.expand(self.batch_shape + self.step_mask.shape[-1:] + (K,)).sample(sample_shape)
            index = chosen.reshape(chosen.shape + (1,) * (1 + len(event))).expand(chosen.shape + (1,) + event)
            value = drawn.gather(chosen.dim(), index).squeeze(chosen.dim())
            mask = self.step_mask.reshape(self.step_mask.shape + (1,) * len(event))
            return torch.where(mask, value, torch.zeros_like(value))

    @staticmethod
    def _draw(logits: Tensor) -> Tensor:
        return torch.distributions.Categorical(logits=logits, validate_args=False).sample()
