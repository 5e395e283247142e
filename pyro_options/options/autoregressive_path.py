"""Amortized, autoregressive distributions over paths, for guides: discrete, relaxed and straight-through."""

import copy
from typing import ClassVar, Protocol

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints
from torch.nn.functional import logsigmoid, one_hot, pad

from pyro_options.distributions.log_space import gumbel
from pyro_options.distributions.one_hot_rows import OneHotRows
from pyro_options.errors import InputError

from .compiled_draw import can_draw, draw


class Decoder(Protocol):
    """Maps the context of a step and the previous step of the path to the logits of its termination and option."""

    def __call__(self, context: Tensor, previous: Tensor) -> Tensor:
        """:param context: ``(..., H)`` :param previous: ``(..., K + 1)`` :returns: logits ``(..., K + 1)``"""


class AutoregressivePath(TorchDistribution):
    r"""Discrete paths sampled step by step.

    .. math:: q(\zeta\mid\xi) = \prod_t q(b_t\mid\zeta_{t-1}, c_t)\,q(h_t\mid b_t, \zeta_{t-1}, c_t), \qquad b_0 = 1

    :math:`c_t` is the encoder's summary of :math:`\xi_{t:T-1}` and of the weights. A path has event shape
    ``(T, K + 1)``, as in :class:`~pyro_options.options.OptionPath`. By default (``coupled``) an option that does not
    terminate continues, :math:`h_t = h_{t-1}` when :math:`b_t = 0`, so that only paths with positive prior probability
    are sampled. ``coupled=False`` is the paper's equation 16, where :math:`h_t` is drawn independently of :math:`b_t`;
    with discrete samples its ELBO is minus infinity.

    :param decoder: logits of a step, a :class:`Decoder`
    :param context: :math:`c_t`, shape ``(..., T, H)``
    :param num_options: K
    :param mask: unpadded steps ``(..., T)``, broadcastable to the batch shape of ``context``
    :param coupled: whether an option that does not terminate continues
    :param infer_first: infer b_0 as well, as the paper does, instead of fixing it to 1
    """

    arg_constraints: ClassVar[dict] = {}
    support: ClassVar[constraints.Constraint] = OneHotRows("a path of options", flags=1)
    discrete = True
    compiled = True  # whether the kernel draws from this class

    def __init__(
        self,
        decoder: Decoder,
        context: Tensor,
        num_options: int,
        mask=None,
        coupled: bool = True,
        infer_first: bool = False,
    ):
        self.decoder, self.context, self.step_mask = decoder, context, mask
        self.coupled, self.infer_first = coupled, infer_first
        self._drawn: tuple[Tensor, Tensor] | None = None
        super().__init__(context.shape[:-2], torch.Size((context.shape[-2], num_options + 1)), validate_args=False)

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        if shape == self.batch_shape:
            return self
        new = copy.copy(self)
        new.context = self.context.expand(shape + self.context.shape[-2:])
        new.step_mask = None if self.step_mask is None else self.step_mask.expand(shape + self.event_shape[:1])
        new._batch_shape, new._drawn = shape, None
        return new

    def _discretize(self, logits: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """``b (..., 1)`` and ``h (..., K)`` from logits and the noise that perturbs them."""
        noisy = logits + noise
        b = (noisy[..., :1] > 0).to(noisy.dtype)
        return b, one_hot(noisy[..., 1:].argmax(-1), noisy.shape[-1] - 1).to(noisy.dtype)

    def _draw(self) -> Tensor:
        T, width = self.event_shape
        context = self.context  # (..., T, H)
        shape = (T, *self.batch_shape)
        logistic = gumbel(context, (*shape, 1)) - gumbel(context, (*shape, 1))
        noise = torch.cat([logistic, gumbel(context, (*shape, width - 1))], -1)
        if self.compiled and self.batch_shape and can_draw(self.decoder, context):
            temperature = getattr(self, "temperature", 1.0)
            how = temperature, self.coupled, self.discrete, self.infer_first
            self._drawn = draw(self.decoder, context, noise.movedim(0, -2), *how)
            return self._drawn[0]
        previous = context.new_zeros((*self.batch_shape, width))
        steps, logits = [], []
        for t, now in enumerate(context.unbind(-2)):  # the backward of context[t] would allocate a full gradient per t
            logits.append(self.decoder(now, previous))
            b, h = self._discretize(logits[t], noise[t])
            if t == 0:
                b = b if self.infer_first else torch.ones_like(b)
            elif self.coupled:
                h = torch.lerp(previous[..., 1:], h, b)
            previous = torch.cat([b, h], -1)
            steps.append(previous)
        path = torch.stack(steps, -2)
        self._drawn = (path, torch.stack(logits, -2))
        return path

    def sample(self, sample_shape=torch.Size()):
        if sample_shape:
            raise InputError(f"Expected sample_shape () but got {tuple(sample_shape)}. Draw paths one at a time.")
        with torch.no_grad():
            path = self._draw()
        self._drawn = None  # the cached logits carry no gradient: log_prob must compute its own
        return path

    def logits(self, value: Tensor) -> Tensor:
        """Termination and option logits of all steps along a path, ``(..., T, K + 1)``."""
        if self._drawn is not None and self._drawn[0] is value:
            return self._drawn[1]
        return self.decoder(self.context, pad(value[..., :-1, :], (0, 0, 1, 0)))

    def log_prob(self, value):
        """The discrete log-probability, whose linear extension scores relaxed paths, as in the paper's code."""
        logits = self.logits(value)
        logit, logits = logits[..., 0], logits[..., 1:]
        b, h = value[..., 0], value[..., 1:]
        if self.coupled:  # recovers b_t g_t, the newly drawn option, from h_t = b_t g_t + (1 - b_t) h_{t-1}; h_0 is g_0
            h = h - (1 - b).unsqueeze(-1) * pad(h[..., :-1, :], (0, 0, 1, 0))
        log_option = (h * torch.log_softmax(logits, -1)).sum(-1)
        log_termination = b * logsigmoid(logit) + (1 - b) * logsigmoid(-logit)
        per_step = log_option + log_termination
        if not self.infer_first:
            per_step = torch.cat([log_option[..., :1], per_step[..., 1:]], -1)
        if self.step_mask is not None:
            per_step = torch.where(self.step_mask, per_step, torch.zeros_like(per_step))
        return per_step.sum(-1)


class RelaxedAutoregressivePath(AutoregressivePath):
    r"""Paths with Gumbel-Softmax options and terminations: reparameterized samples inside the simplex.

    .. math:: b_t = \sigma((l_t + \epsilon_t)/\tau), \qquad g_t = \mathrm{softmax}((y_t + \epsilon'_t)/\tau), \qquad
        h_t = b_t\,g_t + (1 - b_t)\,h_{t-1}

    with logits :math:`l_t, y_t` from the decoder, logistic noise :math:`\epsilon_t` and Gumbel noise
    :math:`\epsilon'_t`. The density is the linear extension of the discrete one, see :class:`AutoregressivePath`.

    :param temperature: :math:`\tau > 0`; :func:`~pyro_options.handlers.temper` anneals it
    """

    support = constraints.independent(constraints.unit_interval, 2)
    has_rsample = True
    discrete = False

    def __init__(
        self,
        decoder,
        context,
        num_options,
        mask=None,
        coupled=True,
        temperature: float = 1.0,
        infer_first: bool = False,
    ):
        if not temperature > 0:
            raise InputError(f"Expected temperature > 0 but got {temperature}.")
        self.temperature = temperature
        super().__init__(decoder, context, num_options, mask, coupled, infer_first)

    def _discretize(self, logits, noise):
        scaled = (logits + noise) / self.temperature
        return torch.sigmoid(scaled[..., :1]), torch.softmax(scaled[..., 1:], -1)

    def rsample(self, sample_shape=torch.Size()):
        if sample_shape:
            raise InputError(f"Expected sample_shape () but got {tuple(sample_shape)}. Draw paths one at a time.")
        return self._draw()

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            path = self.rsample(sample_shape)
        self._drawn = None
        return path


class StraightThroughPath(RelaxedAutoregressivePath):
    """Discrete samples with the gradient of the relaxed ones (straight-through Gumbel-Softmax)."""

    discrete = True

    def _discretize(self, logits, noise):
        soft = super()._discretize(logits, noise)
        hard = AutoregressivePath._discretize(self, logits, noise)
        return soft[0] + (hard[0] - soft[0]).detach(), soft[1] + (hard[1] - soft[1]).detach()
