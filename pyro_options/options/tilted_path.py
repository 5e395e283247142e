"""Option paths with a cost per termination."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_options.errors import check

from .path import OptionPath
from .recursion import NEVER


class TiltedPath(OptionPath):
    r"""An :class:`OptionPath` where every termination after the first step costs ``cost`` nats.

    .. math:: \tilde p(\zeta) = p(\zeta)\,e^{-c\sum_{t\ge 1} b_t}

    It is not normalized: a switch must raise the likelihood of the actions by c nats to pay off. Sampling ignores the
    cost. With :math:`c = 0` it is an :class:`OptionPath`.

    Sums over paths reuse the recursion of :class:`OptionPath`, because
    :math:`(\psi e^{-c}, 1-\psi) = Z\,(\sigma(x-c), \sigma(c-x))` with :math:`x = \mathrm{logit}\,\psi` and
    :math:`Z_k(s_t) = 1-\psi+\psi e^{-c}`. Z depends on the option at :math:`t-1`: log Z is added to its emission.

    :param cost: c >= 0
    """

    def __init__(self, log_weights, termination_logits, mask=None, cost: float = 0.0, validate_args=None):
        check(cost >= 0, "a termination cost >= 0", cost)
        self.cost = cost
        super().__init__(log_weights, termination_logits, mask, validate_args)

    def expand(self, batch_shape, _instance=None):
        plain = super().expand(batch_shape)
        if plain is self:
            return self
        return TiltedPath(plain.log_weights, plain.termination_logits, plain.step_mask, self.cost)

    def reweighted(self, log_weights):
        return TiltedPath(log_weights, self.termination_logits, self.step_mask, self.cost)

    def log_prob(self, value):
        paid = self._masked(value[..., 0])[..., 1:].sum(-1)
        return super().log_prob(value) - self.cost * paid

    def _broadcast(self, emission: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        log_weights, logits, emission, mask = super()._broadcast(emission)
        if mask is not None:  # padded steps cost nothing; a NaN there would get into every gradient
            logits = torch.where(mask.unsqueeze(-1), logits, torch.full_like(logits, NEVER))
        # log Z = log(1 - ψ + ψ e^-c)
        toll = torch.logaddexp(logsigmoid(-logits), logsigmoid(logits) - self.cost)[..., 1:, :]
        return log_weights, logits - self.cost, emission + torch.nn.functional.pad(toll, (0, 0, 0, 1)), mask
