"""Distributions over paths that are built on a model's evidence, for guides: discrete, relaxed, and their marginals."""

import copy
from typing import ClassVar

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints
from torch.nn.functional import pad

from pyro_options.distributions.log_space import gumbel
from pyro_options.errors import InputError, check

from .compiled_steps import DrawnPath, draw_steps
from .evidence import PathEvidence
from .path_steps import Steps, Transitions, average, look_ahead, steps_given, stepwise_log_prob, transitions_given


class StructuredPath(TorchDistribution):
    r"""Discrete paths from a chain with the structure of the exact posterior.

    .. math:: q(\zeta\mid\xi) = q(h_0)\prod_{t\ge 1} q(b_t\mid h_{t-1})\,q(h_t\mid b_t, h_{t-1}), \qquad b_0 = 1

    with the factors of :mod:`~pyro_options.options.path_steps`: the model's evidence about step t, and a message about
    the steps after it. With the exact message it is the posterior, with any other a distribution that still knows what
    the policies know. A path has event shape ``(T, K + 1)``, as in :class:`~pyro_options.options.OptionPath`.

    :param evidence: the factors of the model; gradients do not flow into it
    :param message: r, ``(..., T, K)``; only differences between options matter
    :param lookahead: at least as many exact steps of the backward recursion that the message is taken through first
    """

    arg_constraints: ClassVar[dict] = {}
    support = constraints.independent(constraints.real, 2)
    noisy = discrete = True

    def __init__(self, evidence: PathEvidence, message: Tensor, lookahead: int = 0):
        check(lookahead >= 0, "lookahead >= 0", lookahead)
        self.evidence, self.message, self.lookahead = evidence.map(Tensor.detach), message, lookahead
        self._drawn: DrawnPath | None = None
        self._chain: tuple[Tensor, Steps] | None = None
        super().__init__(
            message.shape[:-2], torch.Size((message.shape[-2], message.shape[-1] + 1)), validate_args=False
        )

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        if shape == self.batch_shape:
            return self
        new = copy.copy(self)
        new.evidence = self.evidence.map(lambda part: part.expand(shape + part.shape[len(self.batch_shape) :]))
        new.message = self.message.expand(shape + self.message.shape[-2:])
        new._batch_shape, new._drawn, new._chain = shape, None, None
        return new

    def _draw(self, sample_shape: torch.Size) -> Tensor:
        if sample_shape:
            raise InputError(f"Expected sample_shape () but got {tuple(sample_shape)}. Draw paths one at a time.")
        noise = None
        if self.noisy:
            *shape, K = self.message.shape
            drawn = gumbel(self.message, (*shape, K + 2))  # at once: three draws would be three times the launches
            noise = torch.cat([drawn[..., :1] - drawn[..., 1:2], drawn[..., 2:]], -1)
        temperature = getattr(self, "temperature", 1.0)
        self._drawn = draw_steps(self.evidence, self.message, self.lookahead, noise, temperature, self.discrete)
        return self._drawn.path

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            path = self._draw(sample_shape)
        self._drawn = None  # it carries no gradient: log_prob must compute its own
        return path

    def chain(self) -> tuple[Tensor, Steps]:
        """The message after looking ahead, and the distribution of each step given the previous one."""
        if self._chain is None:
            message = look_ahead(self.evidence, self.message, self.lookahead)
            self._chain = message, steps_given(self.evidence, message)
        return self._chain

    def transitions(self, value: Tensor) -> Transitions:
        """Probabilities of every transition into step t, given the options of a path at step t - 1."""
        if self._drawn is not None and self._drawn.path is value:
            return self._drawn.transitions
        return transitions_given(self.chain()[1], value[..., 1:])

    def stepwise_log_prob(self, value: Tensor) -> Tensor:
        """The log-probability, averaged over each step: see :func:`~pyro_options.options.path_steps.stepwise_log_prob`.

        The expectation over discrete paths is that of :meth:`log_prob`.
        """
        if self._drawn is not None and self._drawn.path is value:
            return self._drawn.log_prob
        message, steps = self.chain()
        return stepwise_log_prob(steps, self.transitions(value), message, value[..., 1:])

    def log_prob(self, value):
        b, h = value[..., :1], value[..., 1:]
        before = pad(h[..., :-1, :], (0, 0, 1, 0))
        return average(Transitions(b * h, (1 - b) * before, b * before), *self.chain()[1])


class RelaxedStructuredPath(StructuredPath):
    r"""A :class:`StructuredPath` with Gumbel-Softmax options and terminations: reparameterized samples.

    .. math:: b_t = \sigma((\mathrm{logit}\,q(b_t = 1\mid h_{t-1}) + \epsilon_t)/\tau), \quad
        g_t = \mathrm{softmax}((\log q(h_t\mid b_t = 1) + \epsilon'_t)/\tau), \quad h_t = b_t\,g_t + (1 - b_t)\,h_{t-1}

    where :math:`q(b_t = 1\mid h_{t-1})` of a relaxed option is the mixture. Its density is
    :meth:`~StructuredPath.stepwise_log_prob`, for a model under :func:`~pyro_options.handlers.average_steps`.

    :param temperature: :math:`\tau > 0`; :func:`~pyro_options.handlers.temper` anneals it
    """

    has_rsample = True
    discrete = False

    def __init__(self, evidence, message, lookahead: int = 0, temperature: float = 1.0):
        check(temperature > 0, "temperature > 0", temperature)
        self.temperature = temperature
        super().__init__(evidence, message, lookahead)

    def rsample(self, sample_shape=torch.Size()):
        return self._draw(sample_shape)

    def log_prob(self, value):
        return self.stepwise_log_prob(value)


class MarginalStructuredPath(StructuredPath):
    r"""The marginals of a :class:`StructuredPath` in place of a sample, without noise and temperature.

    .. math:: h_t = q(h_t), \qquad b_t = q(b_t = 1)

    The bound is linear in the options of a path, so this is its expectation over discrete paths.
    """

    has_rsample = True
    noisy = discrete = False

    def rsample(self, sample_shape=torch.Size()):
        return self._draw(sample_shape)

    def log_prob(self, value):
        return self.stepwise_log_prob(value)
