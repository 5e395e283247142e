"""Priors over the high-level policy η, the probabilities of the options when the previous one terminates."""

import pyro
import torch
from pyro import distributions as dist
from pyro import poutine
from pyro.nn import PyroModule
from torch import Tensor, nn

from pyro_options.distributions.sticks import StickVector, gem_sticks, log_stick_breaking
from pyro_options.errors import check


class GEM(PyroModule):
    r"""Stick-breaking prior with a learned concentration, and optionally a discount (the Pitman-Yor process).

    .. math:: v_k \sim \mathrm{Beta}(1-d, \alpha+kd), \qquad \eta_k = v_k\prod_{l<k}(1-v_l)

    Sites: ``sticks``, the logits of v, of event shape ``(K,)``, or ``(K - 1,)`` with ``remainder``; and ``alpha`` with
    ``alpha_prior``.

    :param alpha: initial concentration
    :param remainder: ``False`` is the nonparametric prior, whose first K weights leave mass to options not yet created;
        ``True`` truncates it to K options, the last of which takes the remaining mass
    :param discount: d in [0, 1); 0 is the Dirichlet process
    :param learn_discount: learn d, starting from ``discount``, which must then be above 0
    :param alpha_prior: shape and rate of a Gamma prior; α is then the site ``alpha``, and the guide needs a posterior
        for it, ``GrowableGEM(concentration=GammaConcentration(...))``
    """

    def __init__(
        self,
        alpha: float = 1.0,
        remainder: bool = False,
        discount: float = 0.0,
        learn_discount: bool = False,
        alpha_prior: tuple[float, float] | None = None,
    ):
        super().__init__()
        check(alpha > 0, "alpha > 0", alpha)
        check(0 <= discount < 1, "discount in [0, 1)", discount)
        check(discount > 0 or not learn_discount, "discount > 0 to learn it from", discount)
        if alpha_prior is None:
            self.log_alpha = nn.Parameter(torch.tensor(float(alpha)).log())
        else:
            check(min(alpha_prior) > 0, "a shape and a rate > 0 in alpha_prior", alpha_prior)
            self.register_buffer("alpha_prior", torch.tensor(alpha_prior))
        self.remainder, self.learn_discount = remainder, learn_discount
        if learn_discount:
            self.logit_discount = nn.Parameter(torch.logit(torch.tensor(float(discount))))
        elif discount > 0:
            self.register_buffer("fixed_discount", torch.tensor(float(discount)))

    def alpha(self) -> Tensor:
        """The concentration: a parameter, or a sample at the site ``alpha``."""
        if hasattr(self, "log_alpha"):
            return torch.exp(self.log_alpha)
        return pyro.sample("alpha", dist.Gamma(*self.alpha_prior))

    def discount(self) -> Tensor | None:
        """d, or ``None`` if it is 0."""
        if self.learn_discount:
            return torch.sigmoid(self.logit_discount)
        return getattr(self, "fixed_discount", None)

    def forward(self, num_components: int) -> Tensor:
        """Samples the sticks and returns log η, ``(K,)``, with the dimensions of the plates around it in front."""
        prior = gem_sticks(self.alpha(), num_components - self.remainder, self.discount())
        return log_stick_breaking(sample_sticks("sticks", prior), self.remainder)


class Uniform(PyroModule):
    r"""Every option equally likely, as in DDO; no sample site.

    .. math:: \eta_k = 1 / K
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("zero", torch.zeros(()))

    def forward(self, num_components: int) -> Tensor:
        return (self.zero - torch.log(torch.full_like(self.zero, num_components))).expand(num_components)


def sample_sticks(name: str, prior: StickVector) -> Tensor:
    """A draw of sticks that has the dimensions of the plates around it, as all draws but some of Pyro's have.

    See :class:`~pyro_options.distributions.StickVector` for those that lack them: in a plate that follows, they would
    be taken for its rows.
    """
    with poutine.trace() as inner:
        value = pyro.sample(name, prior)
    site = inner.trace.nodes.get(name, {}).get("fn")
    return site.beside_plates(value) if isinstance(site, StickVector) else value


def high_level_prior(name: str, alpha: float = 1.0) -> PyroModule:
    """The prior of this name: ``gem`` (nonparametric), ``truncated`` (K fixed) or ``uniform``."""
    check(name in ("gem", "truncated", "uniform"), "a prior among gem, truncated, uniform", repr(name))
    return Uniform() if name == "uniform" else GEM(alpha, remainder=name == "truncated")
