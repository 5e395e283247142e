"""Posteriors over stick-breaking weights, for options or any other growing mixture."""

from collections.abc import Callable

import pyro
import torch
from pyro import distributions as dist
from pyro.nn import PyroModule
from torch import Tensor, nn

from pyro_options.distributions.root_finding import bisect
from pyro_options.distributions.sticks import LogitKumaraswamy, log_stick_breaking
from pyro_options.errors import check
from pyro_options.growth.growable import Growable

_LOG_B_RANGE = (-12.0, 80.0)


def _solve_log_b(log_a: Tensor, mean: Tensor) -> Tensor:
    """The log b for which Kumaraswamy(a, b) has the given mean, by bisection: the mean decreases in b."""
    low, high = (torch.full_like(log_a, edge) for edge in _LOG_B_RANGE)
    return bisect(lambda log_b: LogitKumaraswamy(log_a.exp(), log_b.exp()).mean_stick - mean, low, high)


def mean_sticks(weight: Tensor) -> Tensor:
    """Sticks ``(..., K)`` of weights ``(..., K)``: each weight over the mass that remains after those before it."""
    left = 1 - torch.cumsum(weight, -1) + weight
    return (weight / left.clamp(min=torch.finfo(weight.dtype).tiny)).clamp(torch.finfo(weight.dtype).tiny, 1 - 1e-6)


def sticks_with_mean(
    log_a: Tensor, mean: Tensor, solve: Callable[[Tensor, Tensor], Tensor] = _solve_log_b
) -> tuple[Tensor, Tensor]:
    r"""log a and log b of Kumaraswamy sticks with the given mean m; a is kept unless b would become extreme.

    For m near one, a small a would require a tiny b, with values of 1 - v down to exp(-1/b) and hundreds of nats of KL
    from the prior; :math:`a \ge m / (1-m)` keeps b near one or above. For m far from one, a large a would require a b
    that overflows, because :math:`m^a` is about 1 / b.

    :param solve: the log b of given log a and mean
    """
    largest = torch.log(-0.75 * _LOG_B_RANGE[1] / torch.log(mean))
    log_a = torch.minimum(torch.maximum(log_a, torch.logit(mean)), largest)
    # on the CPU: bisection takes thousands of operations on a handful of numbers, each a launch on another device
    return log_a, solve(log_a.cpu(), mean.cpu()).to(mean.device)


def kept_sticks(weights: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """Sticks that preserve the weights of the components ``keep``, and which of them are unchanged.

    :param weights: of all components ``(..., K)``
    :returns: sticks in [0, 1], ``(..., len(keep))``, and whether all components up to each are in their old places
    """
    unmoved = torch.cumprod((keep == torch.arange(len(keep), device=keep.device)).long(), 0).bool()
    return mean_sticks(weights.index_select(-1, keep)), unmoved


class GammaConcentration(PyroModule):
    r"""The posterior of the concentration α, for ``GEM(alpha_prior=(shape, rate))``.

    .. math:: q(\alpha) = \mathrm{Gamma}(c, c/m)

    with shape c and mean m learned. A Gamma is the exact conditional posterior of α given the sticks, and the optimal
    mean-field factor for any posterior over sticks:
    :math:`\mathrm{Gamma}(\mathrm{shape} + K, \mathrm{rate} - \sum_k E\log(1-v_k))`. Growth does not change it.

    :param shape: initial shape
    :param rate: initial rate
    :param site: name of the sample site
    """

    def __init__(self, shape: float = 1.0, rate: float = 1.0, site: str = "alpha"):
        super().__init__()
        check(shape > 0 and rate > 0, "shape and rate > 0", (shape, rate))
        self.site = site
        self.log_shape = nn.Parameter(torch.tensor(float(shape)).log())
        self.log_mean = nn.Parameter(torch.tensor(shape / rate).log())  # shape and rate would be strongly correlated

    def distribution(self) -> dist.Gamma:
        """The Gamma over α."""
        return dist.Gamma(torch.exp(self.log_shape), torch.exp(self.log_shape - self.log_mean))

    def forward(self) -> Tensor:
        return pyro.sample(self.site, self.distribution())


class _StickWeights(Growable):
    """Base of posteriors over stick-breaking weights: how the weights change with births, removals and merges."""

    remainder: bool

    def mean_log_weights(self) -> Tensor:
        raise NotImplementedError

    def _set_sticks(self, mean: Tensor) -> None:
        """Sets the mean of every stick, ``(K,)``."""
        raise NotImplementedError

    @torch.no_grad()
    def assign(self, log_weights: Tensor) -> None:
        """Sets the mean weights.

        :param log_weights: ``(K,)``, of weights that sum to less than one, with ``remainder`` to one
        """
        K = self.num_components
        check(len(log_weights) == K, f"{K} weights", len(log_weights))
        self._set_sticks(mean_sticks(torch.exp(log_weights))[: K - self.remainder])

    def inherit(self, child, parent, noise):
        """Does nothing: a new stick takes its weight from the unassigned mass, not from the parent."""

    def blend(self, heir, other, share):
        """Adds the whole mass of ``other`` to that of ``heir``."""
        check(not self.remainder, "a nonparametric prior to move mass", "a truncated one")
        weights = self.mean_log_weights().detach().exp()
        weights[heir] += weights[other]
        weights[other] = 0.0
        self.assign(weights.log())

    def reweight(self, log_weights):
        self.assign(log_weights + torch.logsumexp(self.mean_log_weights().detach(), 0))


class GrowableGEM(_StickWeights, PyroModule):
    r"""A growable posterior over GEM weights: independent Kumaraswamy sticks, in logit space.

    .. math:: v_k \sim \mathrm{Kumaraswamy}(a_k, b_k), \qquad \eta_k = v_k\prod_{l<k}(1-v_l)

    Sites: ``sticks``, the logits of v, of event shape ``(K,)``, or ``(K - 1,)`` with ``remainder``; those of
    ``concentration``. Calling it returns log η, ``(K,)``. A new component takes its weight from the unassigned mass, so
    growing changes no existing weight. Pruning and permuting preserve the mean weights of the components kept.

    :param num_components: K
    :param remainder: for a prior truncated to K components (``K - 1`` sticks); K is then fixed
    :param site: name of the sample site
    :param initial_mean: mean of a new stick; the paper's random initialization is close to one half
    :param concentration: posterior of α if the model samples it, a :class:`GammaConcentration`
    :param jitter: standard deviation of log a and log b of a new stick around these values
    """

    component_axes = {"log_a": 0, "log_b": 0}

    def __init__(
        self,
        num_components: int,
        remainder: bool = False,
        site: str = "sticks",
        initial_mean: float = 0.5,
        concentration: GammaConcentration | None = None,
        jitter: float = 0.0,
    ):
        super().__init__()
        check(num_components >= 1, "num_components >= 1", num_components)
        check(0 < initial_mean < 1, "initial_mean in (0, 1)", initial_mean)
        check(jitter >= 0, "jitter >= 0", jitter)
        self.remainder, self.site, self.initial_mean, self.jitter = remainder, site, initial_mean, jitter
        for name in ("log_a", "log_b"):
            setattr(self, name, nn.Parameter(self.fresh(name, num_components - remainder)))
        self.concentration = concentration

    def _initial_log_b(self) -> float:
        return float(torch.tensor(1 / self.initial_mean - 1).log())  # the mean of Kumaraswamy(1, b) is 1 / (1 + b)

    @property
    def num_components(self) -> int:
        return len(self.log_a) + self.remainder

    def fresh(self, name, count):
        mean = torch.full((count,), 0.0 if name == "log_a" else self._initial_log_b())
        return mean + self.jitter * torch.randn(count) if self.jitter else mean

    def rearranged(self, keep):
        check(not self.remainder, "a nonparametric prior to change K", "a truncated one", 'Use prior="gem".')
        mean, unmoved = kept_sticks(torch.exp(self.mean_log_weights()), keep)
        log_a, log_b = self.log_a.index_select(0, keep), self.log_b.index_select(0, keep)
        moved_a, moved_b = sticks_with_mean(log_a, mean)
        # Solving for b would change sticks by rounding: those before the first removed component keep their bits.
        return {"log_a": torch.where(unmoved, log_a, moved_a), "log_b": torch.where(unmoved, log_b, moved_b)}

    def _set_sticks(self, mean):
        for parameter, value in zip((self.log_a, self.log_b), sticks_with_mean(self.log_a, mean)):
            parameter.copy_(value)

    def sticks(self) -> LogitKumaraswamy:
        """The distribution of the stick logits."""
        return LogitKumaraswamy(torch.exp(self.log_a), torch.exp(self.log_b))

    def mean_log_weights(self) -> Tensor:
        """log E[η], ``(K,)``, exact because sticks are independent; integrated on the CPU, as the numbers are few."""
        sticks = LogitKumaraswamy(*torch.exp(torch.stack([self.log_a, self.log_b]).cpu()))
        mean = sticks.mean_stick.clamp(torch.finfo(self.log_a.dtype).tiny, 1 - 1e-7)
        return log_stick_breaking(torch.logit(mean), self.remainder).to(self.log_a.device)

    def forward(self) -> Tensor:
        if self.concentration is not None:
            self.concentration()
        return log_stick_breaking(pyro.sample(self.site, self.sticks().to_event(1)), self.remainder)


class PointGEM(_StickWeights, PyroModule):
    r"""A point estimate of the sticks instead of a posterior, as an ablation.

    .. math:: q(v) = \delta(v - \hat v), \qquad \eta_k = v_k\prod_{l<k}(1-v_l)

    Parameters, except ``concentration``, and the site are those of :class:`GrowableGEM`.
    """

    component_axes = {"logits": 0}

    def __init__(self, num_components: int, remainder: bool = False, site: str = "sticks", initial_mean: float = 0.5):
        super().__init__()
        check(num_components >= 1, "num_components >= 1", num_components)
        check(0 < initial_mean < 1, "initial_mean in (0, 1)", initial_mean)
        self.remainder, self.site = remainder, site
        self.initial = float(torch.logit(torch.tensor(initial_mean)))
        self.logits = nn.Parameter(torch.full((num_components - remainder,), self.initial))

    @property
    def num_components(self) -> int:
        return len(self.logits) + self.remainder

    def fresh(self, name, count):
        return torch.full((count,), self.initial)

    def rearranged(self, keep):
        check(not self.remainder, "a nonparametric prior to change K", "a truncated one", 'Use prior="gem".')
        stick, unmoved = kept_sticks(torch.exp(self.mean_log_weights()), keep)
        return {"logits": torch.where(unmoved, self.logits.index_select(0, keep), torch.logit(stick))}

    def _set_sticks(self, mean):
        self.logits.copy_(torch.logit(mean))

    def mean_log_weights(self) -> Tensor:
        """log η, ``(K,)``."""
        return log_stick_breaking(self.logits, self.remainder)

    def forward(self) -> Tensor:
        return log_stick_breaking(pyro.sample(self.site, dist.Delta(self.logits, event_dim=1)), self.remainder)


class UniformWeights(Growable, PyroModule):
    r"""The fixed weights of :class:`pyro_options.models.Uniform`; no sample site.

    .. math:: \eta_k = 1 / K

    :param num_components: K
    """

    component_axes = {"zeros": 0}
    zeros: Tensor

    def __init__(self, num_components: int):
        super().__init__()
        check(num_components >= 1, "num_components >= 1", num_components)
        self.register_buffer("zeros", torch.zeros(num_components))

    def mean_log_weights(self) -> Tensor:
        """log η, ``(K,)``, the same for all components."""
        return torch.log_softmax(self.zeros, 0)

    def forward(self) -> Tensor:
        return self.mean_log_weights()


def weights_guide(prior: str, num_components: int, point: bool = False, jitter: float = 0.0) -> PyroModule:
    """The posterior over weights for ``OptionHMM(prior=...)``.

    :param prior: ``gem``, ``truncated`` or ``uniform``
    :param point: :class:`PointGEM` instead of :class:`GrowableGEM`
    :param jitter: of new sticks, see :class:`GrowableGEM`
    """
    check(prior in ("gem", "truncated", "uniform"), "a prior among gem, truncated, uniform", repr(prior))
    if prior == "uniform":
        return UniformWeights(num_components)
    remainder = prior == "truncated"
    return PointGEM(num_components, remainder) if point else GrowableGEM(num_components, remainder, jitter=jitter)
