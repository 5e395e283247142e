"""A high-level policy that depends on the state."""

import torch
from torch import Tensor, nn

from pyro_options.growth.growable import GrowableHeads


class StateWeights(GrowableHeads):
    r"""Weights that a linear preference of each option for states tilts.

    .. math:: \eta_k(s) = \frac{\eta_k\,e^{w_k\cdot s + c_k}}{\sum_l \eta_l\,e^{w_l\cdot s + c_l} + 1 - \sum_l\eta_l}

    Options not yet born have no preference, and neither has a new one: it takes its share of the mass that is left, in
    every state, and growing changes no weight that exists.

    :param state_dim: size of a state
    :param num_options: K
    """

    def __init__(self, state_dim: int, num_options: int):
        super().__init__(state_dim, num_options, 1)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def fresh(self, name, count):
        return torch.zeros(count, *getattr(self, name).shape[1:])

    def log_weights(self, log_weights: Tensor, states: Tensor) -> Tensor:
        """log η_k(s), ``(..., T, K)``.

        :param log_weights: log η, ``(K,)``
        :param states: ``(..., T, state_dim)``
        """
        tilted = log_weights + self(states).squeeze(-1)
        left = (1 - torch.exp(log_weights).sum(-1)).clamp(min=torch.finfo(tilted.dtype).tiny)
        return tilted - torch.logaddexp(torch.logsumexp(tilted, -1, keepdim=True), torch.log(left))
