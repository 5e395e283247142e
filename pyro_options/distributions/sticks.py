"""Distributions of stick logits: the Kumaraswamy posterior, the Beta prior, and the KL divergence between them.

A stick ``v`` in (0, 1) is represented by ``x = logit(v)``: in float32 ``v`` itself soon rounds to exactly 0 or 1 during
training.
"""

import math

import torch
from pyro.distributions import Independent, TorchDistribution
from torch import Tensor
from torch.distributions import constraints, register_kl
from torch.distributions.utils import broadcast_all, lazy_property
from torch.nn.functional import logsigmoid, pad

from pyro_options.kernels.registry import TrackedFunction

from .log_space import log1mexp, log1mexpexp, log_neg_log1mexpexp, log_softplus
from .stick_draw import DrawnSticks, draw_sticks, drawn_log_density


def _exponential(like: Tensor, shape: torch.Size) -> Tensor:
    """Exp(1) draws, never zero."""
    uniform = torch.rand(shape, dtype=like.dtype, device=like.device)
    limits = torch.finfo(like.dtype)
    return -torch.log(uniform.clamp(min=limits.tiny, max=1.0 - limits.eps))


def _log_sticks(log_exponential: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """``log v`` and ``log(1 - v)`` of Kumaraswamy sticks, as a transform of logarithms of Exp(1) draws."""
    m = log_exponential - torch.log(b)  # v^a = 1 - exp(-exp(m))
    log_v = log1mexpexp(m) / a
    log_1mv = log1mexpexp(log_neg_log1mexpexp(m) - torch.log(a))
    return log_v, log_1mv


class _LogBeta(TrackedFunction):
    """The log-density of :class:`LogitBeta`, with half of the operations that autograd would need."""

    @staticmethod
    def forward(ctx, x, c1, c0):
        total = c1 + c0
        log_normalizer = torch.lgamma(c1) + torch.lgamma(c0) - torch.lgamma(total)
        ctx.save_for_backward(x, c1, c0)
        return (c1 * logsigmoid(x)).addcmul_(c0, logsigmoid(-x)) - log_normalizer

    @staticmethod
    def backward(ctx, grad):
        x, c1, c0 = ctx.saved_tensors
        total, of_total = c1 + c0, None
        by_x = by_1 = by_0 = None
        if ctx.needs_input_grad[0]:
            by_x = grad * (c1 - total * torch.sigmoid(x))
        if any(ctx.needs_input_grad[1:]):
            of_total = torch.digamma(total)
        if ctx.needs_input_grad[1]:
            by_1 = grad * (logsigmoid(x) + of_total - torch.digamma(c1))
        if ctx.needs_input_grad[2]:
            by_0 = grad * (logsigmoid(-x) + of_total - torch.digamma(c0))
        return by_x, by_1, by_0


class _StickBreaking(TrackedFunction):
    """:func:`log_stick_breaking`, with half of the operations that autograd would need."""

    @staticmethod
    def forward(ctx, logits, remainder):
        ctx.save_for_backward(logits)
        log_before = pad(torch.cumsum(logsigmoid(-logits), -1), (1, 0))
        if remainder:
            return pad(logsigmoid(logits), (0, 1)) + log_before
        return logsigmoid(logits) + log_before[..., :-1]

    @staticmethod
    def backward(ctx, grad):
        (logits,) = ctx.saved_tensors
        from_here = torch.cumsum(grad.flip(-1), -1).flip(-1)  # a stick also shortens all that come after it
        S = logits.shape[-1]
        return grad[..., :S] - torch.sigmoid(logits) * from_here[..., :S], None


class _LogitStick(TorchDistribution):
    """Base of distributions of the logit of a stick with two positive concentrations."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=False):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        return type(self)(self.concentration1.expand(shape), self.concentration0.expand(shape))


class LogitKumaraswamy(_LogitStick):
    r"""``logit(v)`` with :math:`v \sim \mathrm{Kumaraswamy}(a, b)`.

    .. math:: \log q(x) = \log ab + a\log v + (b-1)\log(1-v^a) + \log(1-v), \qquad v = \sigma(x)

    Samples, densities and gradients are finite in float32 for ``a`` and ``b`` from 1e-3 to 1e3.

    :param concentration1: ``a > 0``
    :param concentration0: ``b > 0``
    """

    _drawn: DrawnSticks | None = None  # the last draw, whose density is known

    def rsample(self, sample_shape=torch.Size()):
        a, b = self.concentration1, self.concentration0
        shape = self._extended_shape(sample_shape)
        exponential = _exponential(a, shape)
        self._drawn = draw_sticks(exponential, a.expand(shape), b.expand(shape))
        if self._drawn is not None:
            return self._drawn.logits
        log_v, log_1mv = _log_sticks(torch.log(exponential), a, b)
        return log_v - log_1mv

    def log_prob(self, value):
        a, b = self.concentration1, self.concentration0
        if self._drawn is not None and self._drawn.logits is value:
            return drawn_log_density(self._drawn, a.expand(value.shape), b.expand(value.shape))
        log_1mva = log1mexpexp(torch.log(a) + log_softplus(-value))
        return torch.log(a) + torch.log(b) + a * logsigmoid(value) + (b - 1) * log_1mva + logsigmoid(-value)

    @lazy_property
    def mean_stick(self) -> Tensor:
        """:math:`E[v]` by quadrature; the closed form :math:`b\\,B(1 + 1/a, b)` cancels catastrophically in float32."""
        s, weights = self._noise()
        log_v, _ = _log_sticks(s, self.concentration1.unsqueeze(-1), self.concentration0.unsqueeze(-1))
        return (weights * torch.exp(log_v)).sum(-1)

    def _noise(self) -> tuple[Tensor, Tensor]:
        """Quadrature nodes and weights over :math:`s`, where :math:`e^s` is Exp(1) distributed."""
        a = self.concentration1
        s = torch.linspace(-30.0, 5.0, 1024, dtype=a.dtype, device=a.device)
        weights = torch.exp(s - torch.exp(s))
        return s, weights / weights.sum()

    @lazy_property
    def expected_log_sticks(self) -> tuple[Tensor, Tensor]:
        r""":math:`E[\log v]` in closed form and :math:`E[\log(1-v)]` by quadrature.

        The integral is over :math:`s` with :math:`e^s` Exp(1) distributed. The integrand decays doubly exponentially on
        the right and exponentially on the left, so the trapezoidal rule converges exponentially.
        """
        a, b = self.concentration1.unsqueeze(-1), self.concentration0.unsqueeze(-1)
        s, weights = self._noise()
        log_1mv = (weights * _log_sticks(s, a, b)[1]).sum(-1)
        log_v = (torch.digamma(torch.ones_like(b)) - torch.digamma(1 + b)) / a
        return log_v.squeeze(-1), log_1mv


class LogitBeta(_LogitStick):
    r"""``logit(v)`` with :math:`v \sim \mathrm{Beta}(c_1, c_0)`; ``LogitBeta(1, alpha)`` is a stick of GEM(alpha).

    .. math:: \log p(x) = c_1\log\sigma(x) + c_0\log\sigma(-x) - \log B(c_1, c_0)

    :param concentration1: :math:`c_1 > 0`
    :param concentration0: :math:`c_0 > 0`
    """

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        return self._log_gamma(self.concentration1, shape) - self._log_gamma(self.concentration0, shape)

    @staticmethod
    def _log_gamma(concentration: Tensor, shape: torch.Size) -> Tensor:
        """Logarithms of Gamma draws, through Gamma(c) = Gamma(c + 1) U^(1/c), which does not underflow at small c."""
        boosted = torch._standard_gamma((concentration + 1).expand(shape))
        return torch.log(boosted) - _exponential(concentration, shape) / concentration

    def log_prob(self, value):
        return _LogBeta.apply(*broadcast_all(value, self.concentration1, self.concentration0))


def _fits(shape: torch.Size, batch_shape: torch.Size) -> bool:
    """Whether a shape can be expanded to a batch shape."""
    return len(shape) <= len(batch_shape) and all(n in (1, m) for n, m in zip(shape[::-1], batch_shape[::-1]))


class StickVector(Independent):
    """The sticks of a weight vector, or of several, as one event, also of draws that lack the dimensions of plates.

    ``Predictive(parallel=True)`` and ``WeighedPredictive(parallel=True)`` hand S draws of a guide without plates to the
    model as ``(S, K)``, although the batch shape of the site is ``(S, 1)``. Broadcasting would pair every draw with
    every particle, which no site can mean: these draws are scored as ``(S, 1, K)``.
    """

    def log_prob(self, value):
        return super().log_prob(self.beside_plates(value))

    def beside_plates(self, value: Tensor) -> Tensor:
        """A value with the dimensions of the plates around this site, of size 1 if it lacks them."""
        rows, event = value.shape[: value.dim() - self.event_dim], value.shape[value.dim() - self.event_dim :]
        missing = len(self.batch_shape) - len(rows)
        moved = rows[:1] + (1,) * missing + rows[1:]
        if missing < 1 or _fits(rows, self.batch_shape) or not _fits(moved, self.batch_shape):
            return value
        return value.reshape(moved + event)


def gem_sticks(alpha: Tensor, num_sticks: int, discount: Tensor | None = None) -> TorchDistribution:
    r"""The GEM(α) prior over the logits of its first S = ``num_sticks`` sticks, of event shape ``(S,)``.

    .. math:: v_k \sim \mathrm{Beta}(1-d, \alpha + kd), \qquad k = 1, 2, \ldots

    :param alpha: concentration, of any batch shape
    :param discount: d in [0, 1), of the same shape; ``None`` is 0. Above 0 this is the Pitman-Yor process, whose
        weights decay like a power of their rank instead of geometrically
    """
    alpha = alpha.unsqueeze(-1)
    shape = alpha.shape[:-1] + (num_sticks,)
    if discount is None:
        return StickVector(LogitBeta(torch.ones_like(alpha), alpha).expand(shape), 1)
    discount = discount.unsqueeze(-1)
    rank = torch.arange(1, num_sticks + 1, dtype=alpha.dtype, device=alpha.device)
    return StickVector(LogitBeta(1 - discount, alpha + rank * discount).expand(shape), 1)


def log_stick_breaking(logits: Tensor, remainder: bool = False) -> Tensor:
    r"""Log weights :math:`\log v_k + \sum_{l<k}\log(1-v_l)` from stick logits.

    >>> log_stick_breaking(torch.zeros(3)).exp().tolist()
    [0.5, 0.25, 0.125]
    >>> log_stick_breaking(torch.zeros(3), remainder=True).exp().tolist()
    [0.5, 0.25, 0.125, 0.125]

    :param logits: stick logits ``(..., S)``
    :param remainder: ``False`` gives ``S`` weights that sum to less than one, the rest being the mass of components not
        yet created (nonparametric truncation); ``True`` appends the rest as the last of ``S + 1`` weights (parametric).
    """
    return _StickBreaking.apply(logits, remainder)


def with_unassigned(log_weights: Tensor) -> Tensor:
    """Log weights ``(..., K)`` with the log of the mass that they leave appended, ``(..., K + 1)``.

    >>> with_unassigned(torch.tensor([0.5, 0.25]).log()).exp().tolist()
    [0.5, 0.25, 0.25]

    :param log_weights: of weights that sum to at most one; if they sum to one up to rounding, the appended mass is the
        smallest normal number
    """
    total, limits = torch.logsumexp(log_weights, -1, keepdim=True), torch.finfo(log_weights.dtype)
    some = total < -64 * limits.eps
    log_left = log1mexp(torch.where(some, total, torch.full_like(total, -1.0)))
    return torch.cat([log_weights, torch.where(some, log_left, math.log(limits.tiny))], -1)


def logit_sticks(log_weights: Tensor) -> Tensor:
    """The inverse of :func:`log_stick_breaking`: the stick logits ``(..., K)`` of given weights.

    :param log_weights: ``(..., K)``, of weights that sum to less than one
    """
    weights = torch.exp(log_weights)
    left = 1 - torch.cumsum(weights, -1)  # mass remaining after each stick
    tiny = torch.finfo(weights.dtype).tiny
    return log_weights - torch.log(left.clamp(min=tiny))


@register_kl(LogitKumaraswamy, LogitBeta)
def kl_kumaraswamy_beta(q: LogitKumaraswamy, p: LogitBeta) -> Tensor:
    """KL(Kumaraswamy || Beta), which is the same for sticks and for their logits.

    All terms are in closed form except ``E[log(1-v)]``, which is integrated numerically: the usual ten-term series is
    biased low by nats.
    """
    a, b = q.concentration1, q.concentration0
    c1, c0 = p.concentration1, p.concentration0
    log_v, log_1mv = q.expected_log_sticks
    log_q = torch.log(a) + torch.log(b) + (a - 1) * log_v - (b - 1) / b
    log_normalizer = torch.lgamma(c1) + torch.lgamma(c0) - torch.lgamma(c1 + c0)
    return log_q - (c1 - 1) * log_v - (c0 - 1) * log_1mv + log_normalizer
