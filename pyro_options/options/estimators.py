r"""Estimates of log p(a) and of its gradient from several discrete paths, whose gradient is not that of their value.

All take :math:`\log p(\zeta_j, a)` and :math:`\log q(\zeta_j)` of J paths, ``(J, ...)``, and return a value ``(...)``.
With :math:`\log w_j = \log p(\zeta_j, a) - \log q(\zeta_j)` and :math:`\zeta_j\sim q`:

- :func:`leave_one_out`: value :math:`\tfrac1J\sum_j\log w_j`, the ELBO; its gradient by the score function, where the
  mean of the other paths is the control variate of each (Kool et al., 2019).
- :func:`importance_weighted`: value :math:`\log\tfrac1J\sum_j w_j` (Burda et al., 2016), a tighter bound; its gradient
  by the score function with a control variate for each path (VIMCO; Mnih and Rezende, 2016).
- :func:`forward_kl`: for paths from the exact posterior instead: their density is raised under p, which is the gradient
  of log p(a) by Fisher's identity, and under q, which lowers KL(posterior || q) (wake-sleep; Hinton et al., 1995). Its
  value, :math:`\tfrac1J\sum_j\log w_j`, is in expectation log p(a) + KL(posterior || q): no lower bound.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from pyro_options.errors import check

from .evidence import PathEvidence
from .marginal import drawn_option_path
from .path import MarginalActions, OptionPath
from .path_steps import Transitions, average

Estimator = Callable[[Tensor, Tensor], Tensor]


def with_gradient(value: Tensor, surrogate: Tensor) -> Tensor:
    """``value``, with the gradient of ``surrogate``."""
    return value.detach() + surrogate - surrogate.detach()


def leave_one_out(log_p: Tensor, log_q: Tensor) -> Tensor:
    """The ELBO; see the module."""
    J = len(log_p)
    check(J >= 2, "at least two paths", J)
    log_w = (log_p - log_q).detach()
    advantage = (log_w - log_w.mean(0)) * J / (J - 1)  # log w_j minus the mean of the others
    return with_gradient(log_w.mean(0), (log_p + advantage * log_q).mean(0))


def importance_weighted(log_p: Tensor, log_q: Tensor) -> Tensor:
    """The importance-weighted bound; see the module."""
    J = len(log_p)
    check(J >= 2, "at least two paths", J)
    log_w = log_p - log_q
    fixed = log_w.detach()
    bound = torch.logsumexp(fixed, 0) - math.log(J)
    others = (fixed.sum(0) - fixed) / (J - 1)  # log of the geometric mean of the other weights, in place of each
    own = torch.eye(J, dtype=torch.bool, device=fixed.device).reshape(J, J, *(1 for _ in fixed.shape[1:]))
    without = torch.logsumexp(torch.where(own, others, fixed), 1) - math.log(J)  # (J, ...)
    surrogate = torch.softmax(fixed, 0) * log_w + (bound - without) * log_q
    return with_gradient(bound, surrogate.sum(0))


def forward_kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """For paths from the posterior; see the module."""
    return with_gradient((log_p - log_q).mean(0), (log_p + log_q).mean(0))


def posterior_paths(evidence: PathEvidence, count: int) -> Tensor:
    """Discrete paths from the exact posterior, ``(count, ..., T, K + 1)``."""
    several = evidence.map(lambda part: part.expand(count, *part.shape))
    options, terminations = drawn_option_path(*several, None)
    hot = torch.nn.functional.one_hot(options, evidence.emission.shape[-1])
    return torch.cat([terminations.unsqueeze(-1), hot], -1).to(evidence.emission.dtype)


def joint_log_prob(evidence: PathEvidence, paths: Tensor) -> Tensor:
    """log p(path, a) of discrete paths that the model allows, ``(...)``.

    :param paths: ``(..., T, K + 1)``
    """
    b, h = paths[..., :1], paths[..., 1:]
    before = pad(h[..., :-1, :], (0, 0, 1, 0))
    taken = Transitions(b * h, (1 - b) * before, b * before)
    return average(taken, evidence.step_log_weights, evidence.termination_logits, evidence.emission)


@dataclass(frozen=True)
class PathEstimate:
    """Paths of a guide and what to make of them: a :class:`~pyro_options.growth.MarginalEstimate`."""

    paths: Tensor  # (J, ..., N, T, K + 1)
    log_q: Tensor  # (J, ..., N)
    estimator: Estimator

    def absorb(self, prior: OptionPath, likelihood) -> "EstimatedActions":
        """The actions, whose log-probability is estimated."""
        return EstimatedActions(prior, likelihood, self)


class EstimatedActions(MarginalActions):
    """Actions of an episode, with an estimate of their log marginal probability.

    :param estimate: the paths of the guide; their number of episodes is that of the actions
    """

    def __init__(self, path: OptionPath, likelihood, estimate: PathEstimate):
        super().__init__(path, likelihood)
        self.estimate = estimate

    def expand(self, batch_shape, _instance=None):
        shape = torch.Size(batch_shape)
        return EstimatedActions(self.path.expand(shape), self.likelihood.expand(shape), self.estimate)

    def log_prob(self, value):
        evidence = self.path.evidence(self.component_log_prob(value))
        paths, log_q = self.estimate.paths, self.estimate.log_q
        for _ in range(len(self.batch_shape) + 1 - log_q.dim()):  # the same paths in all particles
            paths, log_q = paths.unsqueeze(1), log_q.unsqueeze(1)
        return self.estimate.estimator(joint_log_prob(evidence, paths), log_q)
