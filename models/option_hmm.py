"""Options as a hidden Markov model with a stick-breaking prior."""

from collections.abc import Sequence
from typing import Any

import pyro
import torch
from pyro.nn import PyroModule
from torch import nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.options.em_fit import HeadSums, can_be_fitted, fit_heads, head_sums
from pyro_options.options.evidence import PathEvidence
from pyro_options.options.path import OptionPath
from pyro_options.options.policies import option_heads
from pyro_options.options.tilted_path import TiltedPath

from .gem import high_level_prior


class OptionHMM(PyroModule):
    r"""A hidden Markov model of options, with a stick-breaking prior over the high-level policy η.

    .. math:: p(\eta)\prod_i p(\zeta^{(i)}\mid\eta, s^{(i)})\prod_t \pi_{h_t}(a_t^{(i)}\mid s_t^{(i)})

    with :math:`p(\zeta\mid\eta, s)` of :class:`~pyro_options.options.OptionPath`.

    Sites: ``sticks`` (unless ``prior="uniform"``), ``path`` of event shape ``(T, K + 1)`` and ``actions``, the last two
    in the plate ``episodes``, which scales a minibatch to its population. Episodes without actions are generated from
    the K options, with weights that are renormalized to sum to one and without the termination cost.

    :param policy: low-level policies; ``policy(states, path, mask)`` is a distribution over actions
    :param termination: ``termination(states)`` is logit ψ, ``(N, T, K)``
    :param prior: ``gem`` (nonparametric, K may grow), ``truncated`` (K fixed), ``uniform``, or a module such as
        :class:`GEM` that takes K and returns log η
    :param alpha: initial concentration of the stick-breaking prior
    :param termination_cost: cost of each termination in nats, see :class:`~pyro_options.options.TiltedPath`; 0 is the
        paper's model

    Reference: Villecroze et al. (2022), equations 11 to 14.
    """

    #: latent sites that can be summed out: latent site -> the site that absorbs it
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
        """The prior over paths in these episodes, without the termination cost, which only regularizes training."""
        return OptionPath(log_weights, self.termination(episodes.states), episodes.mask)

    def _prior_path(self, log_weights, termination_logits, episodes: Trajectories) -> OptionPath:
        """The distribution of the site ``path``."""
        if self.termination_cost:
            prior = TiltedPath(log_weights, termination_logits, episodes.mask, self.termination_cost)
        else:
            prior = OptionPath(log_weights, termination_logits, episodes.mask)
        return prior if episodes.action_steps is not None else prior.normalized()

    def evidence(self, episodes: Trajectories, log_weights: torch.Tensor) -> PathEvidence:
        """The factors of p(path, actions | weights), for guides that are built on them."""
        actions, termination_logits = option_heads(self.policy, self.termination, episodes.states)
        emission = actions(None, episodes.mask).component_log_prob(episodes.actions)
        return self._prior_path(log_weights, termination_logits, episodes).evidence(emission)

    def statistics(self, episodes: Trajectories, likelihood: Any, value: Any) -> tuple[torch.Tensor, ...] | None:
        """Sums that determine a step of expectation maximization over the heads of policies and terminations."""
        plain = type(getattr(likelihood, "path", None)) is OptionPath
        if not plain or not can_be_fitted(self.policy, self.termination):
            return None
        posterior = likelihood.path.posterior(likelihood.component_log_prob(value))
        return head_sums(self.policy, self.termination, episodes.states, value, episodes.mask, posterior)

    def maximize(self, statistics, components: Sequence[int] | None = None, scale: float | None = None) -> None:
        """Takes that step, with a Gaussian prior of this scale on the weights of heads."""
        fit_heads(self.policy, self.termination, HeadSums(*statistics), components, scale)

    def forward(self, episodes: Trajectories, log_weights: torch.Tensor | None = None):
        """Runs the generative process; with ``log_weights`` given, η is not sampled."""
        policy, mask = self.policy, episodes.mask  # once: each access of a PyroModule registers all its parameters
        if log_weights is None:
            log_weights = self.high_level(policy.num_options)  # (K,)
        actions, termination_logits = option_heads(policy, self.termination, episodes.states)
        index = torch.arange(len(episodes), device=episodes.states.device)
        with pyro.plate("episodes", episodes.population, subsample=index):
            # The guide samples the path and handles its gradient. Without has_rsample TraceGraph_ELBO would track the
            # provenance of the replayed value through every operation of the model, at twice the cost of a step.
            path = pyro.sample("path", self._prior_path(log_weights, termination_logits, episodes).has_rsample_(True))
            return pyro.sample("actions", actions(path, mask), obs=episodes.actions)
