"""The hierarchical Dirichlet process: several weight vectors over the same components."""

import torch
from pyro.nn import PyroModule
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from pyro_options.distributions.sticks import LogitBeta, StickVector, gem_sticks, log_stick_breaking
from pyro_options.errors import check

from .gem import sample_sticks

_LEAST = 1e-6  # of a parameter of a Beta; below it float32 draws are exactly 0 or 1


class HDP(PyroModule):
    r"""Weights β with a stick-breaking prior, and R weight vectors around them; sticky if each belongs to a component.

    .. math:: \beta\sim\mathrm{GEM}(\gamma), \qquad
        \pi_j\sim\mathrm{DP}\left(\alpha+\kappa, \frac{\alpha\beta+\kappa\delta_j}{\alpha+\kappa}\right)

    or, stick by stick, :math:`v_{jk}\sim\mathrm{Beta}(\alpha\beta_k+\kappa\delta_{jk},
    \alpha\sum_{l>k}\beta_l+\kappa\sum_{l>k}\delta_{jl})`. γ, α and κ are learned.

    Sites: ``sticks``, the logits of the sticks of β, of event shape ``(K,)``, and ``row_sticks``, those of all π, of
    event shape ``(R, K)``.

    :param gamma: initial concentration of β
    :param alpha: initial concentration of each π around β; the larger, the more alike they are
    :param stickiness: initial κ; 0 for none
    :param num_rows: R; ``None`` for one vector after each component, the transitions of a Markov chain

    Reference: Teh et al. (2006); Fox et al. (2011) for κ.
    """

    def __init__(
        self, gamma: float = 1.0, alpha: float = 5.0, stickiness: float = 0.0, num_rows: int | None = None
    ) -> None:
        super().__init__()
        check(gamma > 0 and alpha > 0, "gamma and alpha > 0", (gamma, alpha))
        check(stickiness >= 0, "stickiness >= 0", stickiness)
        check(num_rows is None or stickiness == 0, "no stickiness with a fixed number of rows", stickiness)
        self.log_gamma = nn.Parameter(torch.tensor(float(gamma)).log())
        self.log_alpha = nn.Parameter(torch.tensor(float(alpha)).log())
        self.num_rows = num_rows
        if stickiness:
            self.log_stickiness = nn.Parameter(torch.tensor(float(stickiness)).log())

    def row_prior(self, sticks: Tensor) -> LogitBeta:
        """The prior of the sticks of all rows, ``(..., R, K)``, given those of β, ``(..., K)``, all as logits."""
        K = sticks.shape[-1]
        shape = sticks.shape[:-1] + (K if self.num_rows is None else self.num_rows, K)
        alpha = torch.exp(self.log_alpha)
        here = (alpha * torch.exp(log_stick_breaking(sticks))).unsqueeze(-2).expand(shape)
        after = (alpha * torch.exp(torch.cumsum(logsigmoid(-sticks), -1))).unsqueeze(-2).expand(shape)
        if hasattr(self, "log_stickiness"):
            own = torch.exp(self.log_stickiness) * torch.ones_like(here)
            here, after = here + own.tril().triu(), after + own.tril(-1)
        return LogitBeta(here.clamp(min=_LEAST), after.clamp(min=_LEAST))

    def forward(self, num_components: int) -> Tensor:
        """Samples all sticks and returns log β and the log π below it, ``(..., 1 + R, K)``."""
        sticks = sample_sticks("sticks", gem_sticks(torch.exp(self.log_gamma), num_components))
        rows = sample_sticks("row_sticks", StickVector(self.row_prior(sticks), 2))
        shape = torch.broadcast_shapes(sticks.shape[:-1], rows.shape[:-2])  # a value may be the same for all particles
        parts = log_stick_breaking(sticks).unsqueeze(-2), log_stick_breaking(rows)
        return torch.cat([part.expand(shape + part.shape[-2:]) for part in parts], -2)
