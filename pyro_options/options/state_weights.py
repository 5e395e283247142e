"""State-dependent weights of a high-level policy."""

import torch
from torch import Tensor

from pyro_options.growth.growable import ZeroHeads


class StateWeights(ZeroHeads):
    r"""Weights η, tilted by a linear function of the state for each option.

    .. math:: \eta_k(s) = \frac{\eta_k\,e^{w_k\cdot s + c_k}}{\sum_l \eta_l\,e^{w_l\cdot s + c_l} + 1 - \sum_l\eta_l}

    The mass of options not yet created is not tilted, and w and c of a new option start at zero: it takes its share of
    the unassigned mass in every state, and growing does not change the weights of the other options.

    :param state_dim: size of a state
    :param num_options: K
    """

    def __init__(self, state_dim: int, num_options: int):
        super().__init__(state_dim, num_options, 1)

    def log_weights(self, log_weights: Tensor, states: Tensor) -> Tensor:
        """log η_k(s), ``(..., T, K)``.

        :param log_weights: log η, ``(K,)`` or ``(..., K)``
        :param states: ``(..., T, state_dim)``
        """
        log_weights = log_weights.unsqueeze(-2)
        tilted = log_weights + self(states).squeeze(-1)
        left = (1 - torch.exp(log_weights).sum(-1, keepdim=True)).clamp(min=torch.finfo(tilted.dtype).tiny)
        return tilted - torch.logaddexp(torch.logsumexp(tilted, -1, keepdim=True), torch.log(left))
