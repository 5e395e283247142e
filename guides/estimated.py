"""Guides that differ from the paper's in the estimate of the gradient alone: several discrete paths, or less noise."""

import pyro
import torch
from pyro import distributions as dist
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check, check_count
from pyro_options.options.estimators import (
    PathEstimate,
    forward_kl,
    importance_weighted,
    leave_one_out,
    posterior_paths,
)
from pyro_options.options.straight_through import GumbelRaoPath, StickingPath

from .amortized import StraightThrough, _Amortized


class GumbelRao(StraightThrough):
    """:class:`StraightThrough` with its gradient averaged over noise: :class:`~pyro_options.options.GumbelRaoPath`."""

    def path(self, encoder, context, mask):
        how = mask, self.coupled, self.temperature, self.infer_first
        return GumbelRaoPath(encoder.decoder(), context, encoder.num_options, *how)


class StickTheLanding(StraightThrough):
    """:class:`StraightThrough` without the score of q: :class:`~pyro_options.options.StickingPath`."""

    def path(self, encoder, context, mask):
        how = mask, self.coupled, self.temperature, self.infer_first
        return StickingPath(encoder.decoder(), context, encoder.num_options, *how)


class _Estimated(_Amortized):
    r"""Base of guides with several discrete paths for each episode, from the paper's encoder.

    .. math:: q(\eta)\prod_i\prod_j q(\zeta^{(i)}_j\mid\eta, \xi^{(i)})

    The model must be under :func:`~pyro_options.handlers.estimate` (:func:`~pyro_options.handlers.adapt` sees to it):
    its actions then score the estimate that :mod:`~pyro_options.options.estimators` makes of the paths. Sites: those of
    ``weights``, and ``path`` of event shape ``(T, K + 1)`` in the plate ``episodes``, the first of the paths.

    :param num_paths: J
    """

    #: latent site -> the site that absorbs it, for :func:`~pyro_options.handlers.adapt`
    estimates = {"path": "actions"}
    estimator = staticmethod(leave_one_out)

    def __init__(self, weights, encoder, coupled: bool = True, infer_first: bool = False, num_paths: int = 4):
        super().__init__(weights, encoder, coupled, infer_first)
        check_count(num_paths, "num_paths")
        self.num_paths = num_paths

    def draw(self, path, episodes: Trajectories, log_weights: Tensor) -> Tensor:
        """J paths of every episode, ``(J, ..., N, T, K + 1)``."""
        return path.sample()

    def forward(self, episodes):
        log_weights = self.weights()
        encoder = self.encoder  # once: each access of a PyroModule registers all its parameters
        context = encoder.context((episodes.states, episodes.encoded_actions()), episodes.mask, log_weights)
        path = self.path(encoder, context, episodes.mask)
        several = path.expand([self.num_paths, *path.batch_shape])
        with torch.no_grad():
            paths = self.draw(several, episodes, log_weights)
        found = PathEstimate(paths, several.log_prob(paths), self.estimator)
        index = torch.arange(len(episodes), device=context.device)
        with pyro.plate("episodes", episodes.population, subsample=index):
            pyro.sample("path", dist.Delta(paths[0], event_dim=2).mask(False), infer={"estimate": found})


class LeaveOneOut(_Estimated):
    """Score-function gradients, with the other paths of the same episode as the control variate of each.

    The objective is the ELBO; see :func:`~pyro_options.options.leave_one_out`.
    """


class ImportanceWeighted(_Estimated):
    """The importance-weighted bound of each episode; see :func:`~pyro_options.options.importance_weighted`.

    Pyro's ``RenyiELBO`` weights whole traces, here all episodes of a batch together, so that one particle would count.
    """

    estimator = staticmethod(importance_weighted)

    def __init__(self, weights, encoder, coupled: bool = True, infer_first: bool = False, num_paths: int = 8):
        super().__init__(weights, encoder, coupled, infer_first, num_paths)


class WakeSleep(_Estimated):
    """Forward KL: the encoder imitates paths from the exact posterior, which also train the model.

    The objective is no lower bound of the log marginal; see :func:`~pyro_options.options.forward_kl`.

    :param evidence: the model's method of that name, see :class:`~pyro_options.options.EvidenceModel`
    """

    objective_is_bound = False
    estimator = staticmethod(forward_kl)

    def __init__(self, weights, encoder, evidence, coupled: bool = True, infer_first: bool = False, num_paths: int = 1):
        super().__init__(weights, encoder, coupled, infer_first, num_paths)
        check(callable(evidence), "evidence as a method of the model", evidence, "Pass model.evidence.")
        self.evidence = evidence

    def draw(self, path, episodes, log_weights):
        return posterior_paths(self.evidence(episodes, log_weights), self.num_paths)
