"""Options whose successor depends on the option that terminated."""

import pyro
import torch
from pyro.nn import PyroModule
from torch import nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.options.policies import option_heads
from pyro_options.options.transition_path import TransitionPath

from .hdp import HDP


class StickyOptionHMM(PyroModule):
    r"""A hidden Markov model of options with transitions from a (sticky) hierarchical Dirichlet process.

    .. math:: p(\beta)\prod_j p(\pi_j\mid\beta)\prod_i p(\zeta^{(i)}\mid\beta,\pi, s^{(i)})
        \prod_t \pi_{h_t}(a_t^{(i)}\mid s_t^{(i)})

    with :math:`p(\zeta\mid\beta,\pi, s)` of :class:`~pyro_options.options.TransitionPath`: the first option is
    drawn from β, the one after option j from its row :math:`\pi_j`. With all rows equal to β it is an
    :class:`OptionHMM`.

    Sites: those of ``transitions``, ``path`` of event shape ``(T, K + 1)`` and ``actions``, the last two in the plate
    ``episodes``, which scales a minibatch to its population.

    :param policy: low-level policies, as for :class:`OptionHMM`
    :param termination: logit ψ, as for :class:`OptionHMM`
    :param transitions: the prior over β and the rows
    """

    #: latent sites that can be summed out: latent site -> the site that absorbs it
    latents = {"path": "actions"}

    def __init__(self, policy: nn.Module, termination: nn.Module, transitions: HDP | None = None):
        super().__init__()
        counts = policy.num_options, termination.num_options
        check(counts[0] == counts[1], "as many policies as terminations", counts)
        self.policy, self.termination = policy, termination
        self.transitions = HDP() if transitions is None else transitions
        self.prior = type(self.transitions).__name__
        check(self.transitions.num_rows is None, "a row of transitions for each option", self.transitions.num_rows)

    @property
    def num_options(self) -> int:
        """K."""
        return self.policy.num_options

    def path(self, log_weights: torch.Tensor, episodes: Trajectories) -> TransitionPath:
        """The prior over paths in these episodes.

        :param log_weights: log β and the log rows below it, ``(1 + K, K)``
        """
        return TransitionPath(log_weights, self.termination(episodes.states), episodes.mask)

    def forward(self, episodes: Trajectories, log_weights: torch.Tensor | None = None):
        """Runs the generative process; with ``log_weights`` ``(1 + K, K)`` given, transitions are not sampled."""
        policy, mask = self.policy, episodes.mask
        if log_weights is None:
            log_weights = self.transitions(policy.num_options)
        actions, termination_logits = option_heads(policy, self.termination, episodes.states)
        index = torch.arange(len(episodes), device=episodes.states.device)
        with pyro.plate("episodes", episodes.population, subsample=index):
            # as in OptionHMM: without has_rsample TraceGraph_ELBO would track the provenance of the replayed value
            prior = TransitionPath(log_weights, termination_logits, mask)
            prior = prior if episodes.action_steps is not None else prior.normalized()
            path = pyro.sample("path", prior.has_rsample_(True))
            return pyro.sample("actions", actions(path, mask), obs=episodes.actions)
