"""The path summed out."""

from pyro.nn import PyroModule

from pyro_options.data.trajectories import Trajectories


class Exact(PyroModule):
    """Posterior over the sticks; the path is summed out by :func:`~pyro_options.handlers.collapse`.

    No encoder, no temperature, no relaxation bias: with the weights given, the bound is the exact log-likelihood.

    :param weights: posterior over the weights, a :class:`GrowableGEM` for instance
    """

    #: latent site -> observed site that absorbs it
    collapses = {"path": "actions"}

    def __init__(self, weights: PyroModule):
        super().__init__()
        self.weights = weights

    def forward(self, episodes: Trajectories) -> None:
        self.weights()
