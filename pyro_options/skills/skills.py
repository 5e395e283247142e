"""Skills: trained options that act, segment data, and can be saved."""

import copy
import math
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import InputError, check, choice
from pyro_options.growth.resizing import resize
from pyro_options.options.policies import CategoricalPolicy, GaussianHeads, MixedPolicy, OptionPolicy, Termination
from pyro_options.options.state_weights import StateWeights
from pyro_options.segments.poisson_segments import PoissonSegments

from . import format as file_format
from .episodes import batches, check_scores
from .imitation import Imitation
from .numpy_actions import ActionRule, action_rule
from .numpy_policy import NumpyHeads, softmax
from .segmentation import IN_USE, FlatPlaces, Segmentation
from .summary import Summary, option_names, options_before, summarize_flat, table
from .trust import Trust
from .validation import checked_option, checked_states

_MODULES = ("policy", "termination", "state_weights")


def _frozen(module: nn.Module) -> nn.Module:
    return copy.deepcopy(module).eval().requires_grad_(False)


class Skills:
    """K trained options: low-level policies π, termination functions ψ, and weights η of the high-level policy.

    :func:`~pyro_options.skills.to_skills` makes them from a trained model, :meth:`load` from a file. The arguments are
    copied; :meth:`only`, :meth:`used` and :meth:`to` return new skills.

    :param policy: π, a policy of :mod:`pyro_options.options`
    :param termination: ψ
    :param log_weights: log η, ``(K,)``; the weights may sum to less than 1, the rest belongs to options beyond the
        truncation
    :param packed: whether observations are bytes that hold eight bits each, see
        :class:`~pyro_options.data.Trajectories`; unpacked bits are accepted as well
    :param segments: CompILE's model of segment lengths; :meth:`segment` and :meth:`log_likelihood` then sum over
        segments, and ψ is only used to run skills in an environment
    :param state_weights: dependence of the weights on the state, ``None`` if there is none
    :param log_rows: log probabilities of the next option after each option, ``(K, K)``; η is then for the first option
    :param max_duration: steps after which an option must end, ``None`` for no limit
    :param summary: statistics on the demonstrations that the skills were trained on
    :param action_names: names of discrete actions, or of the dimensions of other actions, for tables and figures
    :param metadata: how the skills were made; JSON values
    """

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
        self.discrete = isinstance(policy, CategoricalPolicy)  # whether an action is one integer
        # number of discrete actions, or dimensions of other actions
        self.action_dim = policy.num_actions if isinstance(policy, CategoricalPolicy) else policy.action_dim
        self.num_actions = policy.num_actions  # a tuple if an action is several integers, None if continuous
        counts = policy.num_options, termination.num_options, len(log_weights)
        check(len(set(counts)) == 1, "as many policies as terminations and weights", counts)
        check(max_duration is None or max_duration >= 1, "max_duration >= 1", max_duration)
        self.policy, self.termination = _frozen(policy), _frozen(termination)
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
        self.state_weights = None if state_weights is None else _frozen(state_weights)
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
        states = checked_states(observation, self.state_dim, self.packed)
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
        states = checked_states(observation, self.state_dim, self.packed)
        logits = self.log_weights.cpu().double().numpy()
        if self.log_rows is not None and option is not None:
            before = checked_option(option, states, self.num_options)
            rows = softmax(self.log_rows.cpu().double().numpy())[before]
            return np.broadcast_to(rows, states.shape[:-1] + logits.shape).copy()
        if self.state_weights is None:
            return np.broadcast_to(softmax(logits), states.shape[:-1] + logits.shape).copy()
        weight, bias = (x.cpu().double().numpy() for x in (self.state_weights.weight, self.state_weights.bias))
        return softmax(logits + states @ weight[:, 0].T + bias[:, 0])

    def imitation(self) -> Imitation:
        """All options combined into one policy that imitates the demonstrator, see :class:`Imitation`."""
        return Imitation(self)

    def log_likelihood(self, trajectories: Trajectories, batch_size: int = 256) -> float:
        """Exact log-likelihood of the actions given the states, in nats per step."""
        return float(self.episode_log_likelihoods(trajectories, batch_size).sum()) / trajectories.num_steps

    @torch.no_grad()
    def episode_log_likelihoods(self, trajectories: Trajectories, batch_size: int = 256) -> Tensor:
        """Exact log-likelihood of the actions of each episode given its states, ``(N,)`` in nats."""
        found = torch.zeros(len(trajectories), dtype=torch.float64)
        for index, _, path, emission in batches(self, trajectories, batch_size):
            scores = path.log_marginal(emission)
            check_scores(scores, index)
            found[index] = scores.double().cpu()
        return found

    @torch.no_grad()
    def segment(self, trajectories: Trajectories, method: str = "viterbi", batch_size: int = 256) -> Segmentation:
        """Segments episodes into options.

        :param method: ``viterbi`` for the most probable path, ``posterior`` for the option with the highest marginal
            posterior at each step
        """
        choice(method, "method", ("viterbi", "posterior"))
        lengths, steps = trajectories.lengths.cpu(), trajectories.num_steps
        places, dtype = FlatPlaces(lengths), self.log_weights.dtype
        options, switches = torch.zeros(steps, dtype=torch.long), torch.zeros(steps, dtype=dtype)
        scores = torch.zeros(len(lengths), dtype=dtype)
        for index, batch, path, emission in batches(self, trajectories, batch_size):
            posterior = path.posterior(emission)
            check_scores(posterior.log_marginal, index)
            best = path.viterbi(emission)[0] if method == "viterbi" else posterior.options.argmax(-1)
            at, mask = places.of(index, batch.mask.shape[1])
            options[at[mask]] = best.cpu()[mask]
            switches[at[mask]] = posterior.switches.cpu()[mask]
            scores[index] = posterior.log_marginal.cpu()
        width = trajectories.state_steps.width
        return Segmentation.from_flat(options, switches, lengths, scores, self.num_options, width)

    @torch.no_grad()
    def summarize(self, trajectories: Trajectories, segmentation: Segmentation | None = None) -> Summary:
        """Usage, segment lengths, termination rates and actions of each option on these demonstrations."""
        segmentation = self.segment(trajectories) if segmentation is None else segmentation
        before, places = options_before(segmentation), segmentation.places
        rates = torch.zeros(len(before))
        for index, batch, _, _ in batches(self, trajectories, 256):
            at, mask = places.of(index, batch.mask.shape[1])
            logits = self.termination(batch.states).cpu().gather(-1, before[at].unsqueeze(-1)).squeeze(-1)
            rates[at[mask]] = torch.sigmoid(logits).float()[mask]
        actions = (self._encode(trajectories, part) for part in trajectories.given_actions().chunks())
        return summarize_flat(segmentation, actions, rates)

    def _encode(self, trajectories: Trajectories, actions: Tensor) -> Tensor:
        """Some of these actions ``(steps, …)`` in the columns of ``summary.actions``, ``(steps, out)``."""
        if isinstance(self.policy, MixedPolicy):
            return self.policy.layout.encode(actions.cpu(), self.log_weights.cpu()).float()
        # a negative pad drops actions that never occur
        missing = self.action_dim - trajectories.action_dim if self.discrete else 0
        return nn.functional.pad(trajectories.encode(actions).float().cpu(), (0, missing))

    def describe(self, trajectories: Trajectories | None = None) -> str:
        """A table with a line for each option.

        :param trajectories: demonstrations for the statistics, by default those that the skills were trained on
        """
        summary = self.summary if trajectories is None else self.summarize(trajectories)
        if summary is None:
            raise InputError("Expected demonstrations to describe the options on but got none. Pass trajectories.")
        layout = self.policy.layout if isinstance(self.policy, MixedPolicy) else None
        lines = table(summary, self.log_weights.cpu(), self.discrete, self.action_names, layout)
        trust = self.trust
        return lines if trust is None or trajectories is not None else f"{lines}\n\n{trust.describe()}".rstrip()

    @property
    def trust(self) -> Trust | None:
        """How far the discovery of these skills can be trusted; ``None`` if that was not measured."""
        found = self.metadata.get("trust")
        return None if found is None else Trust.from_dict(found)

    @property
    def names(self) -> list[str]:
        """A short name for each option, with its most frequent action if there is a summary."""
        if self.summary is None:
            return [f"option {k}" for k in range(self.num_options)]
        return option_names(self.summary, self.discrete, self.action_names)

    @property
    def state_names(self) -> tuple[str, ...] | None:
        """Names of the entries of a state (bytes if packed) in the demonstrations, ``None`` if they had none."""
        found = self.metadata.get("state_names")
        return None if found is None else tuple(found)

    @property
    def used_options(self) -> int:
        """Number of options that cover at least 1 % of the steps that the skills were trained on."""
        return len(self._used(IN_USE))

    def _used(self, min_share: float) -> list[int]:
        if self.summary is None:
            raise InputError("Expected skills that know their usage but got no summary. Pass one to Skills.")
        order = self.summary.usage.argsort(descending=True, stable=True).tolist()
        return [k for k in order if self.summary.usage[k] >= min_share]

    def only(self, options: Sequence[int]) -> "Skills":
        """New skills with these options, in this order; the weight of the others is redistributed in proportion."""
        new = copy.copy(self)
        for cache in ("_act", "_stop", "rule"):
            new.__dict__.pop(cache, None)
        for name in _MODULES:
            setattr(new, name, copy.deepcopy(getattr(self, name)))
        resize([module for name in _MODULES if (module := getattr(new, name)) is not None], list(options))
        index = torch.tensor(list(options), device=self.device)
        new.log_weights, new.num_options = self.log_weights[index], len(index)
        if len(index) < self.num_options:
            new.log_weights += torch.logsumexp(self.log_weights, 0) - torch.logsumexp(new.log_weights, 0)
        if self.log_rows is not None:
            rows = self.log_rows[index]
            kept = rows[:, index]
            if len(index) < self.num_options:
                kept = kept + torch.logsumexp(rows, -1, keepdim=True) - torch.logsumexp(kept, -1, keepdim=True)
            new.log_rows = kept
        new.summary = None if self.summary is None else self.summary.select(index.cpu())
        new.metadata, new.rng = copy.deepcopy(self.metadata), np.random.default_rng(0)
        return new

    def used(self, min_share: float = IN_USE) -> "Skills":
        """New skills with the options that cover at least ``min_share`` of the training steps, the most used first."""
        check(0 <= min_share <= 1, "min_share in [0, 1]", min_share)
        used = self._used(min_share)
        check(
            len(used) >= 1, f"an option that covers {min_share:.4g} of the steps", "none", "Pass a smaller min_share."
        )
        return self.only(used)

    def to(self, device: torch.device | str) -> "Skills":
        """The same skills on another device, for :meth:`segment` and :meth:`log_likelihood`; acting stays in numpy."""
        new = copy.copy(self)
        for name in _MODULES:
            module = getattr(self, name)
            setattr(new, name, None if module is None else _frozen(module).to(device))
        new.log_weights = self.log_weights.to(device)
        new.log_rows = None if self.log_rows is None else self.log_rows.to(device)
        return new

    def save(self, path: str | os.PathLike) -> None:
        """Writes a safetensors file with a JSON header, atomically."""
        file_format.write(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Skills":
        """Reads a file that :meth:`save` wrote. Damaged files raise an error, and no file can execute code."""
        return cls(**file_format.read(path))

    def __repr__(self) -> str:
        family = "mixed" if isinstance(self.policy, MixedPolicy) else "continuous"
        kind = f"{self.action_dim} {'discrete actions' if self.discrete else f'{family} action dimensions'}"
        states = f"{self.state_dim} packed bits" if self.packed else f"{self.state_dim} numbers"
        return f"Skills({self.num_options} options, states of {states}, {kind})"
