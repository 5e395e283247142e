"""Options as a hidden Markov model."""

import pyro
import torch
from pyro.nn import PyroModule
from torch import nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.options.path import OptionPath
from pyro_options.options.policies import option_heads
from pyro_options.options.tilted_path import TiltedPath

from .gem import high_level_prior


class OptionHMM(PyroModule):
    r"""Options with a stick-breaking prior over the high-level policy.

    .. math:: p(\eta)\prod_i p(\zeta^{(i)}\mid\eta, s^{(i)})\prod_t \pi_{h_t}(a_t^{(i)}\mid s_t^{(i)})

    Sites: ``sticks`` (unless ``prior="uniform"``), ``path`` of event shape ``(T, K + 1)`` and ``actions``, the last two
    in the plate ``episodes``, which scales a minibatch to its population.

    :param policy: low-level policies, ``policy(states, path, mask)`` a distribution over actions
    :param termination: ``termination(states)`` gives logit ψ, ``(N, T, K)``
    :param prior: ``gem`` (nonparametric, K may grow), ``truncated`` (K fixed), ``uniform``, or a module such as
        :class:`GEM` that takes K and returns log η
    :param alpha: initial concentration of the stick-breaking prior
    :param termination_cost: nats that a path pays for each termination, see
        :class:`~pyro_options.options.TiltedPath`; 0 is the paper's model

    Reference: Villecroze et al. (2022), equations 11 to 14.
    """

    #: what can be summed out, latent site -> the site that absorbs it
    latents = {"path": "actions"}

    def __init__(
        self,
        policy: nn.Module,
        termination: nn.Module,
        prior: str | PyroModule = "gem",
        alpha: float = 1.0,
        termination_cost: float = 0.0,
    ):
        super().__init__()
        check(
            policy.num_options == termination.num_options,
            "as many policies as terminations",
            f"{policy.num_options} and {termination.num_options}",
        )
        self.policy, self.termination = policy, termination
        self.high_level = high_level_prior(prior, alpha) if isinstance(prior, str) else prior
        check(termination_cost >= 0, "a termination cost >= 0", termination_cost)
        self.prior = prior if isinstance(prior, str) else type(prior).__name__
        self.termination_cost = termination_cost

    @property
    def num_options(self) -> int:
        """K."""
        return self.policy.num_options

    def path(self, log_weights: torch.Tensor, episodes: Trajectories) -> OptionPath:
        """The prior over paths in these episodes, without the cost: what the options say, not what we want of them."""
        return OptionPath(log_weights, self.termination(episodes.states), episodes.mask)

    def _prior_path(self, log_weights, termination_logits, mask) -> OptionPath:
        if self.termination_cost:
            return TiltedPath(log_weights, termination_logits, mask, self.termination_cost)
        return OptionPath(log_weights, termination_logits, mask)

    def forward(self, episodes: Trajectories, log_weights: torch.Tensor | None = None):
        """Runs the generative story; with ``log_weights`` given, η is not drawn."""
        policy, mask = self.policy, episodes.mask  # every look at a submodule registers its parameters: look once
        if log_weights is None:
            log_weights = self.high_level(policy.num_options)  # (K,)
        actions, termination_logits = option_heads(policy, self.termination, episodes.states)
        index = torch.arange(len(episodes), device=episodes.states.device)
        with pyro.plate("episodes", episodes.population, subsample=index):
            # The guide draws the path and accounts for its gradient; without this TraceGraph_ELBO would track the
            # replayed value through every operation of the model a second time, at twice the cost of a step.
            prior = self._prior_path(log_weights, termination_logits, mask).has_rsample_(True)
            path = pyro.sample("path", prior)
            return pyro.sample("actions", actions(path, mask), obs=episodes.actions)
