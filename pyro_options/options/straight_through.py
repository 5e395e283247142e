"""Straight-through paths whose gradient has less variance."""

import torch
from torch import Tensor

from pyro_options.errors import check, check_count

from .autoregressive_path import AutoregressivePath, StraightThroughPath
from .encoder import PathDecoder


@torch.no_grad()
def given_maximum(logits: Tensor, choice: Tensor, count: int) -> Tensor:
    r"""Logits perturbed by Gumbel noise, given which one is the largest, ``(count, ..., K)``.

    With :math:`E_k` exponential and :math:`Z=\sum_k e^{l_k}`, the largest is :math:`-\log E_i + \log Z`, the others are
    :math:`-\log(E_k e^{-l_k} + E_i / Z)`.

    :param logits: l, ``(..., K)``
    :param choice: one-hot i, ``(..., K)``
    """
    noise = torch.empty(count, *logits.shape, dtype=logits.dtype, device=logits.device).exponential_()
    noise = noise.clamp(min=torch.finfo(logits.dtype).tiny)
    log_total = torch.logsumexp(logits, -1, keepdim=True)
    largest = torch.log((noise * choice).sum(-1, keepdim=True)) - log_total  # minus the largest one
    others = torch.logaddexp(torch.log(noise) - logits, largest)
    return -torch.where(choice > 0.5, largest, others)


class GumbelRaoPath(StraightThroughPath):
    """:class:`StraightThroughPath` with the relaxed gradient averaged over the noise that gives the same draw.

    :param num_draws: of that noise

    Reference: Paulus, Maddison and Krause (2021), Rao-Blackwellizing the straight-through Gumbel-Softmax estimator.
    """

    compiled = False

    def __init__(self, *args, num_draws: int = 10, **kwargs):
        check_count(num_draws, "num_draws")
        self.num_draws = num_draws
        super().__init__(*args, **kwargs)

    def _discretize(self, logits, noise):
        b, h = AutoregressivePath._discretize(self, logits.detach(), noise)
        # a termination is a choice between two options with logits l and 0
        two = torch.cat([logits[..., :1], torch.zeros_like(logits[..., :1])], -1)
        stop = self._relaxed(two, torch.cat([b, 1 - b], -1))[..., :1]
        option = self._relaxed(logits[..., 1:], h)
        return stop + (b - stop).detach(), option + (h - option).detach()

    def _relaxed(self, logits: Tensor, choice: Tensor) -> Tensor:
        """The mean relaxed choice; as in all reparameterized gradients, the noise is held fixed."""
        noise = given_maximum(logits, choice, self.num_draws) - logits.detach()
        return torch.softmax((logits + noise) / self.temperature, -1).mean(0)


class StickingPath(StraightThroughPath):
    r"""A :class:`StraightThroughPath` whose log-density has no gradient of its own parameters.

    .. math:: \nabla_\phi \log q_\phi(\zeta) = \frac{\partial\log q_\phi(\zeta)}{\partial\zeta}\nabla_\phi\zeta
        + \frac{\partial\log q_\phi(\zeta)}{\partial\phi}

    The second term has mean zero and is left out (sticking the landing): where q is the posterior, so is the variance.

    Reference: Roeder, Wu and Duvenaud (2017).
    """

    def log_prob(self, value):
        return self._fixed().log_prob(value)

    def _fixed(self) -> AutoregressivePath:
        """The same distribution with parameters that have no gradient."""
        fix = "Take one from PathEncoder.decoder()."
        check(isinstance(self.decoder, PathDecoder), "a PathDecoder", type(self.decoder).__name__, fix)
        assert isinstance(self.decoder, PathDecoder)
        given = self.context.detach(), self.event_shape[-1] - 1, self.step_mask, self.coupled, self.infer_first
        return AutoregressivePath(self.decoder.detached(), *given)
