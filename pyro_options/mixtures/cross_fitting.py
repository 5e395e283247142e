"""Cross-fitting: the density of rows under components that were fitted to the others."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyro_options.distributions.mixture import Mixture
from pyro_options.errors import check
from pyro_options.growth.snapshot import Snapshot

from .coordinate_ascent import ascend, mean_log_shares


@torch.no_grad()
def cross_fitted(components: Any, rows: Tensor, shares: Tensor, folds: int, steps: int) -> Tensor:
    """The predictive log-density of each row under components that were fitted to the other folds, ``(N,)``.

    Components are restored afterwards.

    :param components: see :class:`Conjugate`; a module
    :param shares: responsibilities ``(N, K)`` to start every fold from
    :param folds: at most as many as there are rows
    :param steps: of coordinate ascent in each fold
    """
    undo, density = Snapshot([components]), rows.new_zeros(len(rows))
    # the same folds for every model that is compared, whatever the order of the rows
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).to(rows.device)
    for judged in order.chunk(min(folds, len(rows))):
        others = torch.ones(len(rows), dtype=torch.bool, device=rows.device).index_fill(0, judged, False)
        fitted = ascend(components, rows[others], shares[others], steps)
        density[judged] = Mixture(mean_log_shares(fitted), components.predictive()).log_prob(rows[judged]).to(density)
        undo.restore()
    return density


@dataclass(frozen=True)
class Folds:
    """Compares mixtures by cross-fitting: rows judge components that were fitted to the other folds.

    The bound assumes that components are independent given the data. Where they overlap that is far from true, and it
    falls behind the evidence by several nats for each of them: of six Gaussians three standard deviations apart it
    prefers three or four. The predictive density of rows that were not fitted has no such bias.

    :param number: of folds
    :param steps: of coordinate ascent in each of them
    """

    number: int = 5
    steps: int = 30

    def __post_init__(self) -> None:
        check(self.number >= 2, "two folds or more", self.number)
        check(self.steps >= 1, "steps >= 1", self.steps)

    def __call__(self, components: Any, rows: Tensor, shares: Tensor) -> Tensor:
        """The predictive log-density of each row ``(N,)``."""
        return cross_fitted(components, rows, shares, self.number, self.steps)
