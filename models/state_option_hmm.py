"""Options with a state-dependent high-level policy."""

import pyro
import torch
from pyro import distributions as dist
from pyro.nn import PyroModule
from torch import Tensor, nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.options.policies import option_heads
from pyro_options.options.state_path import StatePath
from pyro_options.options.state_weights import StateWeights

from .option_hmm import OptionHMM


class StateOptionHMM(OptionHMM):
    r"""An :class:`OptionHMM` whose high-level policy depends on the state.

    .. math:: p(\eta)\,p(w, c)\prod_i p(\zeta^{(i)}\mid\eta(s^{(i)}))\prod_t \pi_{h_t}(a_t^{(i)}\mid s_t^{(i)})

    with :math:`\eta_k(s)` of :class:`~pyro_options.options.StateWeights` and :math:`p(\zeta\mid\eta(s))` of
    :class:`~pyro_options.options.StatePath`. The parameters w and c of η(s) are learned, with a Normal prior.

    Sites: those of :class:`OptionHMM`, and the factor ``tilt``, :math:`\log p(w, c)`.

    :param policy: low-level policies, as for :class:`OptionHMM`
    :param termination: logit ψ, as for :class:`OptionHMM`
    :param state_dim: size of a state
    :param prior: as for :class:`OptionHMM`
    :param alpha: initial concentration of the stick-breaking prior
    :param tilt_scale: standard deviation of the prior over w and c
    """

    def __init__(
        self,
        policy: nn.Module,
        termination: nn.Module,
        state_dim: int,
        prior: str | PyroModule = "gem",
        alpha: float = 1.0,
        tilt_scale: float = 5.0,
    ):
        super().__init__(policy, termination, prior, alpha)
        check(tilt_scale > 0, "tilt_scale > 0", tilt_scale)
        self.tilt, self.tilt_scale = StateWeights(state_dim, policy.num_options), tilt_scale

    def state_log_weights(self, log_weights: Tensor, states: Tensor) -> Tensor:
        """log η_k(s), ``(..., T, K)``."""
        return self.tilt.log_weights(log_weights, states)

    def _prior_path(self, log_weights, termination_logits, episodes: Trajectories) -> StatePath:
        log_weights = self.state_log_weights(log_weights, episodes.states)  # (N, T, K)
        return StatePath(log_weights, termination_logits, episodes.mask)

    def path(self, log_weights: Tensor, episodes: Trajectories) -> StatePath:
        return self._prior_path(log_weights, self.termination(episodes.states), episodes)

    def forward(self, episodes: Trajectories, log_weights: torch.Tensor | None = None):
        """Runs the generative process; with ``log_weights`` given, η is not sampled."""
        policy, mask = self.policy, episodes.mask
        if log_weights is None:
            log_weights = self.high_level(policy.num_options)  # (K,)
        tilt = torch.cat([self.tilt.weight.flatten(), self.tilt.bias.flatten()])
        pyro.factor("tilt", dist.Normal(torch.zeros_like(tilt), self.tilt_scale).log_prob(tilt).sum())
        actions, termination_logits = option_heads(policy, self.termination, episodes.states)
        prior = self._prior_path(log_weights, termination_logits, episodes)
        index = torch.arange(len(episodes), device=episodes.states.device)
        with pyro.plate("episodes", episodes.population, subsample=index):
            prior = prior if episodes.action_steps is not None else prior.normalized()
            path = pyro.sample("path", prior.has_rsample_(True))
            return pyro.sample("actions", actions(path, mask), obs=episodes.actions)
