"""Dirichlet-process mixtures."""

import pyro
import torch
from pyro.nn import PyroModule
from torch import Tensor, nn

from pyro_options.distributions.mixture import Mixture
from pyro_options.errors import check

from .gem import high_level_prior


class DPMixture(PyroModule):
    r"""A mixture with a stick-breaking prior over its weights; the component of each row is summed out.

    .. math:: p(\eta)\prod_k p(\theta_k)\prod_i \sum_k \eta_k\,p(x_i\mid\theta_k)

    The components have conjugate posteriors :math:`q(\theta_k)`. The likelihood uses
    :math:`\exp E_q\log p(x\mid\theta_k)` in place of :math:`p(x\mid\theta_k)`, which together with the factor
    ``components``, :math:`-\mathrm{KL}(q\Vert p)`, gives a lower bound on the evidence, tight if components do not
    overlap.

    Sites: ``sticks`` of event shape ``(K,)``, the factor ``components``, and ``rows`` of event shape ``(D,)`` in the
    plate ``data``.

    :param components: growable components, :class:`~pyro_options.mixtures.GaussianComponents` or
        :class:`~pyro_options.mixtures.CountComponents`
    :param prior: ``gem`` (nonparametric, K may grow), ``truncated`` (K fixed), or a module such as :class:`GEM`
    :param alpha: initial concentration of the stick-breaking prior
    """

    #: no latent site is left to sum out
    latents: dict[str, str] = {}

    def __init__(self, components: nn.Module, prior: str | PyroModule = "gem", alpha: float = 1.0):
        super().__init__()
        self.components = components
        self.high_level = high_level_prior(prior, alpha) if isinstance(prior, str) else prior

    @property
    def num_components(self) -> int:
        """K."""
        return self.components.num_components

    def forward(self, rows: Tensor, log_weights: Tensor | None = None, population: int | None = None) -> Tensor:
        """Runs the generative process; with ``log_weights`` given, η is not sampled.

        :param rows: ``(N, D)``
        :param population: number of rows in the data set of which ``rows`` is a minibatch
        """
        components = self.components
        if log_weights is None:
            log_weights = self.high_level(components.num_components)  # (K,)
        pyro.factor("components", -components.divergence().sum())
        size = len(rows) if population is None else population
        with pyro.plate("data", size, subsample=torch.arange(len(rows), device=rows.device)):
            return pyro.sample("rows", Mixture(log_weights, components()), obs=rows)

    @torch.no_grad()
    def predictive_log_prob(self, rows: Tensor, mean_log_weights: Tensor) -> Tensor:
        """Log predictive density of new rows, ``(N,)``; the unassigned mass has the prior predictive as its density.

        :param mean_log_weights: log E[η] from the guide ``(K,)``
        """
        total = float(mean_log_weights.exp().sum())
        check(total <= 1 + 1e-4, "weights that sum to at most one", total)
        born = Mixture(mean_log_weights, self.components.predictive()).log_prob(rows)
        log_left = torch.log(torch.tensor(max(1 - total, 1e-30))).to(born)
        unborn = self.components.prior_predictive().log_prob(rows.unsqueeze(-2)).squeeze(-1)
        return torch.logaddexp(born, log_left + unborn)

    @torch.no_grad()
    def labels(self, rows: Tensor, mean_log_weights: Tensor) -> Tensor:
        """The most probable component of each row ``(N,)``."""
        return Mixture(mean_log_weights, self.components()).responsibilities(rows).argmax(-1)
