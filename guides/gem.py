"""Posteriors over stick-breaking weights. They know nothing of options: any growing mixture can use them."""

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
    """The log b for which Kumaraswamy(a, b) has the given mean, which falls as b grows."""
    low, high = (torch.full_like(log_a, edge) for edge in _LOG_B_RANGE)
    return bisect(lambda log_b: LogitKumaraswamy(log_a.exp(), log_b.exp()).mean_stick - mean, low, high)


def _mean_sticks(weight: Tensor) -> Tensor:
    """The share that each weight takes of what those before it have left."""
    left = 1 - torch.cumsum(weight, 0) + weight
    return (weight / left.clamp(min=torch.finfo(weight.dtype).tiny)).clamp(torch.finfo(weight.dtype).tiny, 1 - 1e-6)


def _with_mean(log_a: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    r"""log a and log b of Kumaraswamy sticks with the given mean, a changed where it must be.

    Near one a small a would take a tiny b, and 1 - v values as small as exp(-1/b): the divergence from the prior would
    be hundreds of nats. With :math:`a \ge m / (1-m)` b stays near one or above. Far from one a large a would take a b
    that no float holds, because :math:`m^a` is about 1 / b.
    """
    largest = torch.log(-0.75 * _LOG_B_RANGE[1] / torch.log(mean))
    log_a = torch.minimum(torch.maximum(log_a, torch.logit(mean)), largest)
    return log_a, _solve_log_b(log_a, mean)


def _kept_sticks(weights: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """The sticks that give the components ``keep`` the weights they had, and which of them need no change.

    :param weights: of all components ``(K,)``
    :returns: sticks in [0, 1] and whether each still follows the same ones, both ``(len(keep),)``
    """
    unmoved = torch.cumprod((keep == torch.arange(len(keep), device=keep.device)).long(), 0).bool()
    return _mean_sticks(weights.index_select(0, keep)), unmoved


class GammaConcentration(PyroModule):
    r"""The posterior of the concentration α that goes with ``GEM(alpha_prior=(shape, rate))``.

    A Gamma is what α has exactly when the sticks are known, and the best factor beside any posterior over sticks:
    :math:`\Gamma(a + K, b - \sum_k E\log(1-v_k))`. It has no component axis: growing leaves it alone.

    :param shape: initial shape
    :param rate: initial rate
    """

    def __init__(self, shape: float = 1.0, rate: float = 1.0, site: str = "alpha"):
        super().__init__()
        check(shape > 0 and rate > 0, "shape and rate > 0", (shape, rate))
        self.site = site
        self.log_shape = nn.Parameter(torch.tensor(float(shape)).log())
        self.log_mean = nn.Parameter(torch.tensor(shape / rate).log())  # shape and rate would pull at each other

    def distribution(self) -> dist.Gamma:
        """The Gamma over α."""
        return dist.Gamma(torch.exp(self.log_shape), torch.exp(self.log_shape - self.log_mean))

    def forward(self) -> Tensor:
        return pyro.sample(self.site, self.distribution())


class _StickWeights(Growable):
    """What posteriors over stick-breaking weights do when components come and go."""

    remainder: bool

    def mean_log_weights(self) -> Tensor:
        raise NotImplementedError

    def _set_sticks(self, mean: Tensor) -> None:
        """Moves every stick so that its mean is this."""
        raise NotImplementedError

    @torch.no_grad()
    def assign(self, log_weights: Tensor) -> None:
        """Moves every stick so that the mean weights are these.

        :param log_weights: ``(K,)``, summing to less than one
        """
        check(not self.remainder, "a nonparametric prior to assign weights to", "a truncated one")
        check(len(log_weights) == self.num_components, f"{self.num_components} weights", len(log_weights))
        self._set_sticks(_mean_sticks(torch.exp(log_weights)))

    def inherit(self, child, parent, noise):
        """A new stick breaks what is left, whoever its parent: weights are not inherited."""

    def blend(self, heir, other, share):
        """The heir takes the whole mass of the other."""
        weights = self.mean_log_weights().detach().exp()
        weights[heir] += weights[other]
        weights[other] = 0.0
        self.assign(weights.log())

    def reweight(self, log_weights):
        self.assign(log_weights + torch.logsumexp(self.mean_log_weights().detach(), 0))


class GrowableGEM(_StickWeights, PyroModule):
    r"""A growable posterior over GEM weights: independent Kumaraswamy sticks, in logit space.

    .. math:: v_k \sim \mathrm{Kumaraswamy}(a_k, b_k), \qquad \eta_k = v_k\prod_{l<k}(1-v_l)

    Calling it samples the site and returns log η, ``(K,)``. A new component takes its share from the mass that nobody
    has yet, so growing changes no existing weight. Pruning and permuting keep the mean weight of every component kept.

    :param num_components: K
    :param remainder: match a prior truncated to K components (``K - 1`` sticks); its K is then fixed
    :param site: name of the sample site
    :param initial_mean: mean of a new stick; the paper's random start is close to one half
    :param concentration: posterior of α where the prior has one, a :class:`GammaConcentration`
    """

    component_axes = {"log_a": 0, "log_b": 0}

    def __init__(
        self,
        num_components: int,
        remainder: bool = False,
        site: str = "sticks",
        initial_mean: float = 0.5,
        concentration: GammaConcentration | None = None,
    ):
        super().__init__()
        check(num_components >= 1, "num_components >= 1", num_components)
        check(0 < initial_mean < 1, "initial_mean in (0, 1)", initial_mean)
        self.remainder, self.site, self.initial_mean = remainder, site, initial_mean
        num_sticks = num_components - remainder
        self.log_a = nn.Parameter(torch.zeros(num_sticks))
        self.log_b = nn.Parameter(torch.full((num_sticks,), self._initial_log_b()))
        self.concentration = concentration

    def _initial_log_b(self) -> float:
        return float(torch.tensor(1 / self.initial_mean - 1).log())  # the mean of Kumaraswamy(1, b) is 1 / (1 + b)

    @property
    def num_components(self) -> int:
        return len(self.log_a) + self.remainder

    def fresh(self, name, count):
        return torch.full((count,), 0.0 if name == "log_a" else self._initial_log_b())

    def rearranged(self, keep):
        check(not self.remainder, "a nonparametric prior to change K", "a truncated one", 'Use prior="gem".')
        mean, unmoved = _kept_sticks(torch.exp(self.mean_log_weights()), keep)
        log_a, log_b = self.log_a.index_select(0, keep), self.log_b.index_select(0, keep)
        moved_a, moved_b = _with_mean(log_a, mean)
        # Sticks that still follow the same ones keep their value to the bit.
        return {"log_a": torch.where(unmoved, log_a, moved_a), "log_b": torch.where(unmoved, log_b, moved_b)}

    def _set_sticks(self, mean):
        for parameter, value in zip((self.log_a, self.log_b), _with_mean(self.log_a, mean)):
            parameter.copy_(value)

    def sticks(self) -> LogitKumaraswamy:
        """The distribution of the stick logits."""
        return LogitKumaraswamy(torch.exp(self.log_a), torch.exp(self.log_b))

    def mean_log_weights(self) -> Tensor:
        """log E[η], exact because sticks are independent."""
        mean = self.sticks().mean_stick.clamp(torch.finfo(self.log_a.dtype).tiny, 1 - 1e-7)
        return log_stick_breaking(torch.logit(mean), self.remainder)

    def forward(self) -> Tensor:
        if self.concentration is not None:
            self.concentration()
        return log_stick_breaking(pyro.sample(self.site, self.sticks().to_event(1)), self.remainder)


class PointGEM(_StickWeights, PyroModule):
    """A point estimate of the weights in place of a posterior: the ablation of the Bayesian treatment."""

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
        stick, unmoved = _kept_sticks(torch.exp(self.mean_log_weights()), keep)
        return {"logits": torch.where(unmoved, self.logits.index_select(0, keep), torch.logit(stick))}

    def _set_sticks(self, mean):
        self.logits.copy_(torch.logit(mean))

    def mean_log_weights(self) -> Tensor:
        """log η."""
        return log_stick_breaking(self.logits, self.remainder)

    def forward(self) -> Tensor:
        return log_stick_breaking(pyro.sample(self.site, dist.Delta(self.logits, event_dim=1)), self.remainder)


class UniformWeights(Growable, PyroModule):
    """No posterior at all: the weights of :class:`pyro_options.models.Uniform`."""

    component_axes = {"zeros": 0}
    zeros: Tensor

    def __init__(self, num_components: int):
        super().__init__()
        check(num_components >= 1, "num_components >= 1", num_components)
        self.register_buffer("zeros", torch.zeros(num_components))

    def mean_log_weights(self) -> Tensor:
        """log η, the same for all."""
        return torch.log_softmax(self.zeros, 0)

    def forward(self) -> Tensor:
        return self.mean_log_weights()


def weights_guide(prior: str, num_components: int, point: bool = False) -> PyroModule:
    """The posterior that goes with ``OptionHMM(prior=...)``."""
    check(prior in ("gem", "truncated", "uniform"), "a prior among gem, truncated, uniform", repr(prior))
    if prior == "uniform":
        return UniformWeights(num_components)
    return (PointGEM if point else GrowableGEM)(num_components, remainder=prior == "truncated")
