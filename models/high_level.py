"""Priors over the high-level policy η: who is chosen when an option ends."""

import torch
from pyro import sample
from pyro.nn import PyroModule
from torch import Tensor, nn

from pyro_options.distributions import gem_sticks, log_stick_breaking
from pyro_options.errors import check


class GEM(PyroModule):
    r"""Stick-breaking prior with a learned concentration.

    .. math:: v_k \sim \mathrm{Beta}(1, \alpha), \qquad \eta_k = v_k\prod_{l<k}(1-v_l)

    :param alpha: initial concentration
    :param remainder: ``False`` is the nonparametric prior, whose first K weights leave mass to options not yet born;
        ``True`` truncates it to K options, the last taking what is left
    """

    def __init__(self, alpha: float = 1.0, remainder: bool = False):
        super().__init__()
        check(alpha > 0, "alpha > 0", alpha)
        self.log_alpha = nn.Parameter(torch.tensor(float(alpha)).log())
        self.remainder = remainder

    def forward(self, num_components: int) -> Tensor:
        """Samples the sticks and returns log η of shape ``(K,)``."""
        alpha = torch.exp(self.log_alpha)
        sticks = sample("sticks", gem_sticks(alpha, num_components - self.remainder))
        return log_stick_breaking(sticks, self.remainder)


class Uniform(PyroModule):
    """Every option equally likely, as in DDO."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("zero", torch.zeros(()))

    def forward(self, num_components: int) -> Tensor:
        return (self.zero - torch.log(torch.full_like(self.zero, num_components))).expand(num_components)


def high_level_prior(name: str, alpha: float = 1.0) -> PyroModule:
    """``gem`` (nonparametric), ``truncated`` (K fixed) or ``uniform``."""
    check(name in ("gem", "truncated", "uniform"), "a prior among gem, truncated, uniform", repr(name))
    return Uniform() if name == "uniform" else GEM(alpha, remainder=name == "truncated")
