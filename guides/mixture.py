"""The posterior of a mixture whose assignments are summed out."""

from pyro.nn import PyroModule
from torch import Tensor


class MixtureWeights(PyroModule):
    """Posterior over the sticks; the component of each row is summed out by the model.

    :param weights: posterior over the weights, a :class:`GrowableGEM` for instance
    """

    collapses: dict[str, str] = {}

    def __init__(self, weights: PyroModule):
        super().__init__()
        self.weights = weights

    def forward(self, rows: Tensor, population: int | None = None) -> None:
        self.weights()
