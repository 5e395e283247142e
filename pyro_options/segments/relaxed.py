"""Amortized, relaxed distributions over boundaries and skills of segments, for CompILE's guide."""

import copy
from collections.abc import Callable
from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints
from torch.nn.functional import one_hot, pad

from pyro_options.distributions.log_space import gumbel, safe_log
from pyro_options.errors import check

from .boundaries import IMPOSSIBLE


def _relaxed(logits: Tensor, temperature: float) -> Tensor:
    """A Gumbel-Softmax sample."""
    return torch.softmax((logits + gumbel(logits, logits.shape)) / temperature, -1)


class RelaxedBoundaries(TorchDistribution):
    r"""Autoregressive Gumbel-Softmax boundaries, of event shape ``(M - 1, T + 1)``.

    .. math:: q(b\mid\xi) = \prod_j q(b_j\mid b_{<j}, \xi)

    A boundary is never before the previous one, nor beyond the end of its episode. The density is the discrete
    log-probability, extended linearly to relaxed values, as in
    :class:`~pyro_options.options.RelaxedAutoregressivePath`.

    :param decoder: ``decoder(passed)`` gives logits over positions ``(..., T + 1)`` from the probability that each step
        is after the previous boundary, ``(..., T)``
    :param num_segments: M
    :param mask: unpadded steps ``(..., T)``
    :param temperature: a positive number; :func:`~pyro_options.handlers.temper` anneals it
    """

    arg_constraints: ClassVar[dict] = {}
    support = constraints.independent(constraints.simplex, 1)
    has_rsample = True

    def __init__(self, decoder: Callable[[Tensor], Tensor], num_segments: int, mask: Tensor, temperature: float = 1.0):
        check(temperature > 0, "temperature > 0", temperature)
        self.decoder, self.step_mask, self.temperature = decoder, mask, temperature
        self._drawn: tuple[Tensor, Tensor] | None = None
        super().__init__(mask.shape[:-1], torch.Size((num_segments - 1, mask.shape[-1] + 1)), validate_args=False)

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        if shape == self.batch_shape:
            return self
        new = copy.copy(self)
        new.step_mask = self.step_mask.expand(shape + self.step_mask.shape[-1:])
        new._batch_shape, new._drawn = shape, None
        return new

    def _next(self, passed: Tensor) -> Tensor:
        """Log-probabilities of the next boundary ``(..., T + 1)``.

        :param passed: probability that the previous boundary is at or before each position ``(..., T + 1)``
        """
        time = torch.arange(passed.shape[-1], device=passed.device)
        inside = time <= self.step_mask.sum(-1, keepdim=True)
        logits = self.decoder(passed[..., :-1]) + safe_log(passed)
        return torch.log_softmax(torch.where(inside, logits, torch.full_like(logits, IMPOSSIBLE)), -1)

    def _walk(self, choose: Callable[[int, Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Boundaries, chosen one after the other by ``choose``, and their log-probabilities ``(..., M - 1, T + 1)``."""
        passed = torch.ones_like(pad(self.step_mask, (0, 1)), dtype=torch.get_default_dtype())
        chosen, logits = [], []
        for j in range(self.event_shape[0]):
            logits.append(self._next(passed))
            chosen.append(choose(j, logits[j]))
            passed = passed * torch.cumsum(chosen[j], -1)
        return torch.stack(chosen, -2), torch.stack(logits, -2)

    def rsample(self, sample_shape=torch.Size()):
        check(not sample_shape, "sample_shape ()", tuple(sample_shape), "Draw boundaries one at a time.")
        self._drawn = self._walk(lambda j, logits: _relaxed(logits, self.temperature))
        return self._drawn[0]

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            value = self.rsample(sample_shape)
        self._drawn = None  # the cached logits carry no gradient: log_prob must compute its own
        return value

    def best(self) -> Tensor:
        """The most probable boundaries, chosen greedily one after the other, one-hot ``(..., M - 1, T + 1)``."""
        with torch.no_grad():
            return self._walk(lambda j, logits: one_hot(logits.argmax(-1), logits.shape[-1]).to(logits))[0]

    def log_prob(self, value):
        if self._drawn is not None and self._drawn[0] is value:
            logits = self._drawn[1]
        else:
            logits = self._walk(lambda j, _: value[..., j, :])[1]
        return (value * logits).sum((-1, -2))


class RelaxedSkills(TorchDistribution):
    r"""Independent Gumbel-Softmax skills of the segments, of event shape ``(M, K)``.

    .. math:: \log q(h) = \sum_j \sum_k h_{j,k}\log\mathrm{softmax}(l_j)_k

    :param logits: :math:`l`, ``(..., M, K)``
    :param temperature: a positive number; :func:`~pyro_options.handlers.temper` anneals it
    """

    arg_constraints: ClassVar[dict] = {}
    support = constraints.independent(constraints.simplex, 1)
    has_rsample = True

    def __init__(self, logits: Tensor, temperature: float = 1.0):
        check(temperature > 0, "temperature > 0", temperature)
        self.log_probs, self.temperature = torch.log_softmax(logits, -1), temperature
        super().__init__(logits.shape[:-2], logits.shape[-2:], validate_args=False)

    def expand(self, batch_shape, _instance=None):
        new = copy.copy(self)
        new._batch_shape = torch.Size(batch_shape)
        new.log_probs = self.log_probs.expand(new._batch_shape + self.event_shape)
        return new

    def rsample(self, sample_shape=torch.Size()):
        return _relaxed(self.log_probs.expand(torch.Size(sample_shape) + self.log_probs.shape), self.temperature)

    def log_prob(self, value):
        return (value * self.log_probs).sum((-1, -2))
