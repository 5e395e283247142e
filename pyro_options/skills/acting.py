"""Options that act: their policies, terminations and weights, evaluated in numpy."""

import copy
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from pyro_options.errors import InputError, check
from pyro_options.nn.state_network import StateNetwork
from pyro_options.options.policies import CategoricalPolicy, GaussianHeads, MixedPolicy, OptionPolicy, Termination
from pyro_options.options.state_weights import StateWeights
from pyro_options.segments.poisson_segments import PoissonSegments

from .numpy_actions import ActionRule, action_rule
from .numpy_policy import NumpyHeads, softmax
from .summary import Summary
from .validation import checked_option, checked_states

#: attributes that hold modules
MODULES = ("policy", "termination", "state_weights")

_CACHES = ("_act", "_stop", "rule")


def frozen(module: nn.Module) -> nn.Module:
    """A copy that is not trained."""
    return copy.deepcopy(module).eval().requires_grad_(False)


class ActingSkills:
    """The part of :class:`Skills` that acts: what it is made of, and what it does in a state."""

    def __init__(
        self,
        policy: OptionPolicy,
        termination: Termination,
        log_weights: Tensor,
        packed: bool = False,
        max_duration: int | None = None,
        summary: Summary | None = None,
        action_names: Sequence[str] | None = None,
        metadata: dict[str, Any] | None = None,
        segments: PoissonSegments | None = None,
        state_weights: StateWeights | None = None,
        log_rows: Tensor | None = None,
    ):
        check(isinstance(policy, OptionPolicy), "a policy of pyro_options.options", type(policy))
        check(isinstance(termination, Termination), "a termination of pyro_options.options", type(termination))
        self.num_options = len(log_weights)
        self.state_dim = policy.state_dim  # size of a state, in bits if packed
        network = policy.network
        # shape of a state for a network of the user's own; None for states as they are
        self.state_shape = network.state_shape if isinstance(network, StateNetwork) else None
        self.discrete = isinstance(policy, CategoricalPolicy)  # whether an action is one integer
        # number of discrete actions, or dimensions of other actions
        self.action_dim = policy.num_actions if isinstance(policy, CategoricalPolicy) else policy.action_dim
        self.num_actions = policy.num_actions  # a tuple if an action is several integers, None if continuous
        counts = policy.num_options, termination.num_options, len(log_weights)
        check(len(set(counts)) == 1, "as many policies as terminations and weights", counts)
        check(max_duration is None or max_duration >= 1, "max_duration >= 1", max_duration)
        self.policy, self.termination = frozen(policy), frozen(termination)
        self.log_weights = log_weights.detach().clone().to(policy.heads.weight)
        check(bool(self.log_weights.isfinite().all()), "finite log weights", self.log_weights.tolist())
        self.packed, self.max_duration, self.summary, self.segments = packed, max_duration, summary, segments
        given = [x for x in (segments, state_weights, log_rows) if x is not None]
        check(len(given) <= 1, "one of segments, state_weights and log_rows", len(given))
        if log_rows is not None:
            log_rows = log_rows.detach().clone().to(self.log_weights)
            shape = (self.num_options, self.num_options)
            check(log_rows.shape == shape, f"log_rows of shape {shape}", tuple(log_rows.shape))
            check(bool(log_rows.isfinite().all()), "finite log_rows", "others")
        self.log_rows = log_rows
        self.state_weights = None if state_weights is None else frozen(state_weights)
        each = "discrete action" if self.discrete else "action dimension"
        named = action_names is None or len(action_names) == self.action_dim
        check(named, f"one name for each {each}", action_names)
        self._initial_logit = termination.initial_logit
        self.action_names = None if action_names is None else tuple(action_names)
        self.metadata = copy.deepcopy(metadata or {})
        self.rng = np.random.default_rng(0)  # default of the methods that sample

    @property
    def device(self) -> torch.device:
        """Device of :meth:`segment` and :meth:`log_likelihood`."""
        return self.log_weights.device

    @cached_property
    def _act(self) -> NumpyHeads:
        return NumpyHeads(self.policy)

    @cached_property
    def _stop(self) -> NumpyHeads:
        return NumpyHeads(self.termination)

    @cached_property
    def rule(self) -> ActionRule:
        """How the outputs of the policy become actions."""
        return action_rule(self.policy)

    @property
    def action_scale(self) -> np.ndarray:
        """Standard deviations of the Gaussian dimensions of an action, ``(K, dimensions)``."""
        check(isinstance(self.policy, GaussianHeads), "continuous actions", f"{self.num_actions} discrete ones")
        return np.exp(self.policy.total_log_scale().cpu().numpy())

    @property
    def action_columns(self) -> list[str]:
        """A label for each column of ``summary.actions``."""
        if isinstance(self.policy, MixedPolicy):
            return self.policy.layout.column_names(self.action_names)
        kind = "action" if self.discrete else "dimension"
        return list(self.action_names or (f"{kind} {a}" for a in range(self.action_dim)))

    def _ask(self, heads: NumpyHeads, observation: ArrayLike, option: int | ArrayLike | None) -> np.ndarray:
        states = checked_states(observation, self.state_dim, self.packed, self.state_shape)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow raises below
            outputs = heads(states, checked_option(option, states, self.num_options))
        if not math.isfinite(outputs.sum()):  # cheaper than checking the observation, whose NaN or inf ends up here
            raise InputError("Expected finite observations but got NaN, infinity or numbers that overflow.")
        return outputs

    def predict(
        self,
        observation: ArrayLike,
        option: int | ArrayLike,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> Any:
        """The action of ``option``: an integer or ``(action_dim,)``, or ``(n,)`` or ``(n, action_dim)`` for n states.

        :param observation: ``(state_dim,)`` or ``(n, state_dim)``
        :param option: one option for all observations, or one for each
        :param deterministic: return the most probable action instead of sampling
        :param rng: for sampling, by default :attr:`rng`
        """
        outputs = self._ask(self._act, observation, option)
        return self.rule.act(outputs, option, None if deterministic else self.rng if rng is None else rng)

    def outputs(self, observation: ArrayLike) -> np.ndarray:
        """Action logits (means if continuous) of all options: ``(K, out)`` or ``(n, K, out)``; means first if mixed."""
        return self._ask(self._act, observation, None)

    def action_probabilities(self, observation: ArrayLike, option: int | ArrayLike | None) -> np.ndarray:
        """π_k(· | s) of discrete actions, ``(num_actions,)`` or ``(n, num_actions)``.

        :param option: one option for all observations, one for each, or ``None`` for all options, which inserts a
            dimension of size K before the last
        """
        check(self.discrete, "one discrete action", f"{self.action_dim} dimensions")
        return softmax(self._ask(self._act, observation, option))

    def termination_probability(self, observation: ArrayLike, option: int | ArrayLike | None) -> Any:
        """ψ_k(s), the probability that ``option`` terminates in this state: a float, or ``(n,)``.

        :param option: one option for all observations, one for each, or ``None`` for all options, ``(K,)`` or
            ``(n, K)``
        """
        logits = self._ask(self._stop, observation, option)[..., 0] + self._initial_logit
        probability = 0.5 + 0.5 * np.tanh(0.5 * logits)  # a sigmoid that cannot overflow
        return probability if probability.ndim else float(probability)

    def terminates(
        self, observation: ArrayLike, option: int | ArrayLike, rng: np.random.Generator | None = None
    ) -> Any:
        """Whether ``option`` terminates in this state, sampled from ψ: a bool, or ``(n,)`` booleans.

        :param rng: by default :attr:`rng`
        """
        probability = self.termination_probability(observation, option)
        rng = self.rng if rng is None else rng
        if isinstance(probability, float):
            return bool(rng.random() < probability)
        return rng.random(probability.shape) < probability

    def choice_probabilities(self, observation: ArrayLike, option: int | ArrayLike | None = None) -> np.ndarray:
        """η(s), the probability of each option after a termination in this state: ``(K,)`` or ``(n, K)``, sums to 1.

        :param option: the option that terminated, one for all observations or one for each; ``None`` for the first
            option of an episode. It only matters for skills with ``log_rows``
        """
        states = checked_states(observation, self.state_dim, self.packed, self.state_shape)
        logits = self.log_weights.cpu().double().numpy()
        if self.log_rows is not None and option is not None:
            before = checked_option(option, states, self.num_options)
            rows = softmax(self.log_rows.cpu().double().numpy())[before]
            return np.broadcast_to(rows, states.shape[:-1] + logits.shape).copy()
        if self.state_weights is None:
            return np.broadcast_to(softmax(logits), states.shape[:-1] + logits.shape).copy()
        weight, bias = (x.cpu().double().numpy() for x in (self.state_weights.weight, self.state_weights.bias))
        return softmax(logits + states @ weight[:, 0].T + bias[:, 0])

    def _without_caches(self) -> dict[str, Any]:
        """All attributes but those that are computed from others."""
        return {name: value for name, value in self.__dict__.items() if name not in _CACHES}

    def __getstate__(self) -> dict[str, Any]:
        return self._without_caches()
