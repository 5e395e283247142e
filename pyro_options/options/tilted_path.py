"""Option paths with a cost per termination."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_options.distributions.sticks import with_unassigned
from pyro_options.errors import check

from .path import OptionPath
from .recursion import NEVER


class TiltedPath(OptionPath):
    r"""An :class:`OptionPath` where every termination after the first step costs ``cost`` nats.

    .. math:: \tilde p(\zeta) = p(\zeta)\,e^{-c\sum_{t\ge 1} b_t}

    A switch must raise the likelihood of the actions by c nats to pay off. The mass that this takes from paths through
    the K options goes to those that leave them: at a termination an option not yet created is drawn with probability
    :math:`1 - e^{-c}\sum_k\eta_k`. With :math:`c = 0` it is an :class:`OptionPath`; so is :meth:`normalized`, without
    the cost.

    Sums over paths reuse the recursion of :class:`OptionPath`, because
    :math:`(\psi e^{-c}, 1-\psi) = Z\,(\sigma(x-c), \sigma(c-x))` with :math:`x = \mathrm{logit}\,\psi` and
    :math:`Z_k(s_t) = 1-\psi+\psi e^{-c}`. Z depends on the option at :math:`t-1`: log Z is added to its emission.

    :param cost: c >= 0
    """

    def __init__(self, log_weights, termination_logits, mask=None, cost: float = 0.0, validate_args=None):
        check(cost >= 0, "a termination cost >= 0", cost)
        self.cost = cost
        super().__init__(log_weights, termination_logits, mask, validate_args)

    def _log_draws(self):
        first = super()._log_draws()
        later = with_unassigned(self._step_weights() - self.cost).expand(*first.shape[:-2], self.event_shape[0] - 1, -1)
        return torch.cat([first, later], -2)

    def reweighted(self, log_weights):
        return TiltedPath(log_weights, self.termination_logits, self.step_mask, self.cost)

    def log_prob(self, value):
        among_k = (value[..., 1:] != 0).any(-1)  # the cost is part of the probability of leaving these options
        paid = self._masked(value[..., 0] * among_k)[..., 1:].sum(-1)
        return super().log_prob(value) - self.cost * paid

    def _broadcast(self, emission: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        log_weights, logits, emission, mask = super()._broadcast(emission)
        if mask is not None:  # padded steps cost nothing; a NaN there would get into every gradient
            logits = torch.where(mask.unsqueeze(-1), logits, torch.full_like(logits, NEVER))
        # log Z = log(1 - ψ + ψ e^-c)
        toll = torch.logaddexp(logsigmoid(-logits), logsigmoid(logits) - self.cost)[..., 1:, :]
        return log_weights, logits - self.cost, emission + torch.nn.functional.pad(toll, (0, 0, 0, 1)), mask
