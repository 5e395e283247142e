"""The guide for models with the path summed out."""

from pyro.nn import PyroModule

from pyro_options.data.trajectories import Trajectories


class Exact(PyroModule):
    r"""Posterior over the sticks; the path is summed out by :func:`~pyro_options.handlers.collapse`.

    .. math:: q(\eta)\prod_i p(\zeta^{(i)}\mid\eta, s^{(i)}, a^{(i)})

    The path has its exact posterior, so there is no encoder, no temperature and no relaxation bias: given the weights,
    the ELBO is the exact log-likelihood. Sites: those of ``weights``.

    :param weights: :math:`q(\eta)`, a :class:`GrowableGEM` for instance
    """

    #: latent site -> observed site that absorbs it
    collapses = {"path": "actions"}

    def __init__(self, weights: PyroModule):
        super().__init__()
        self.weights = weights

    def forward(self, episodes: Trajectories) -> None:
        self.weights()
