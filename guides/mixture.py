"""The guide for mixtures whose assignments are summed out."""

from pyro.nn import PyroModule
from torch import Tensor


class MixtureWeights(PyroModule):
    r"""Posterior :math:`q(\eta)` over the sticks; the component of each row is summed out by the model.

    Sites: those of ``weights``.

    :param weights: :math:`q(\eta)`, a :class:`GrowableGEM` for instance
    """

    collapses: dict[str, str] = {}

    def __init__(self, weights: PyroModule):
        super().__init__()
        self.weights = weights

    def forward(self, rows: Tensor, population: int | None = None) -> None:
        self.weights()
