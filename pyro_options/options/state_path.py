"""The distribution of option paths under a state-dependent high-level policy."""

import torch

from pyro_options.errors import InputError

from .path import OptionPath


class StatePath(OptionPath):
    r"""An :class:`~pyro_options.options.OptionPath` whose weights η(s) depend on the state where an option begins.

    .. math:: p(\zeta) = \eta_{h_0}(s_0)\prod_{t\ge 1}
        [\psi_{h_{t-1}}(s_t)\,\eta_{h_t}(s_t)]^{b_t}
        [(1-\psi_{h_{t-1}}(s_t))\,\delta_{h_t=h_{t-1}}]^{1-b_t}, \qquad b_0 = 1

    The transition is still diagonal plus rank one, so sums over paths cost O(TK); they run in torch, not in the kernel.

    :param log_weights: log η_k(s_t), shape ``(..., T, K)``
    :param termination_logits: logit ψ_k(s_t), shape ``(..., T, K)``; entry ``t = 0`` is not used
    :param mask: unpadded steps, shape ``(..., T)``; all of them by default
    """

    reweightable = False  # the weights differ from step to step

    def __init__(self, log_weights, termination_logits, mask=None, validate_args=None):
        if log_weights.shape[-2:] != termination_logits.shape[-2:]:
            raise InputError(
                "Expected log_weights and termination_logits of the same shape (..., T, K) but got "
                f"{tuple(log_weights.shape)} and {tuple(termination_logits.shape)}."
            )
        super().__init__(log_weights[..., 0, :], termination_logits, mask)
        self.step_log_weights = log_weights

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        if shape == self.batch_shape:
            return self
        new = super().expand(shape)
        new.step_log_weights = self.step_log_weights.expand(shape + self.step_log_weights.shape[-2:])
        return new

    def _step_weights(self):
        return self.step_log_weights

    def normalized(self):
        return StatePath(torch.log_softmax(self.step_log_weights, -1), self.termination_logits, self.step_mask)

    def _broadcast(self, emission):
        _, logits, emission, mask = super()._broadcast(emission)
        return self.step_log_weights.expand(emission.shape), logits, emission, mask
