"""The objective of hard options: the best paths through given options, and the best options for given paths."""

import copy
import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from pyro_options.data.trajectories import Trajectories
from pyro_options.growth.resizing import copy_components, resize
from pyro_options.options.path import OptionPath

from .hard_fit import fit_policy

#: steps that are used at most, and of each episode
MOST_STEPS, LONGEST = 20_000, 2_000

#: share of steps at which options terminate, before any path is known
FIRST_RATE = 0.1

#: rounds of an alternation, and iterations of L-BFGS in each, at most
ALTERNATIONS, ITERATIONS = 20, 10


@dataclass(frozen=True)
class Demonstrated:
    """The steps that hard options are found in, those of all episodes in a row."""

    states: Tensor  # (S, D)
    actions: Tensor  # (S,) or (S, A)
    mask: Tensor  # (N, T) of the steps that exist

    @classmethod
    def some(cls, data: Trajectories) -> "Demonstrated":
        """All steps of these demonstrations, or if they are many, those of random episodes."""
        data = data.alone().cut(LONGEST)
        if data.num_steps > MOST_STEPS:
            order = torch.randperm(len(data))
            count = int((data.lengths.cpu()[order].cumsum(0) <= MOST_STEPS).sum())
            data = data[order[: max(1, count)].sort().values]
        data = data.unpack().to(dtype=torch.float64)
        assert data.actions is not None
        return cls(data.states[data.mask], data.actions[data.mask], data.mask)

    def by_episode(self, values: Tensor) -> Tensor:
        """Values of the steps ``(S, ...)`` as ``(N, T, ...)``, zero where there is no step."""
        found = values.new_zeros(*self.mask.shape, *values.shape[1:])
        found[self.mask] = values
        return found


@dataclass(frozen=True)
class HardPaths:
    """The best path of every episode."""

    options: Tensor  # (N, T)
    emission: Tensor  # (N, T) log-probability of the actions under them
    log_prob: float  # of all paths and actions


@dataclass
class HardModel:
    r"""K options without uncertainty.

    .. math:: J = -\sum_i \max_\zeta \log p(\zeta, a^{(i)}\mid s^{(i)}) + \lambda (K - 1)

    where options have equal weights and terminate with the same probability ψ everywhere, so that every switch has the
    same price.

    :param policy: in double precision
    :param steps: the demonstrations
    :param price: λ, in nats
    :param rate: ψ
    """

    policy: Any
    steps: Demonstrated
    price: float
    rate: float = FIRST_RATE

    @property
    def num_options(self) -> int:
        """K."""
        return self.policy.num_options

    def copy(self) -> "HardModel":
        """A model that can be changed independently."""
        return replace(self, policy=copy.deepcopy(self.policy))

    def prior(self, num_options: int, batch: tuple[int, ...] = ()) -> OptionPath:
        """The distribution of paths through this many equal options."""
        mask = self.steps.mask.expand(*batch, *self.steps.mask.shape)
        weights = self.steps.states.new_full((num_options,), -math.log(num_options))
        logits = weights.new_full((*mask.shape, num_options), math.log(self.rate / (1 - self.rate)))
        return OptionPath(weights, logits, mask)

    @torch.no_grad()
    def emission(self, policy: Any = None) -> Tensor:
        """log π_k(a_t | s_t), ``(N, T, K)``, of these options or of others."""
        policy = self.policy if policy is None else policy
        return self.steps.by_episode(policy(self.steps.states).component_log_prob(self.steps.actions))

    def best(self) -> HardPaths:
        """The best paths."""
        emission = self.emission()
        options, log_prob = self.prior(self.num_options).viterbi(emission)
        return HardPaths(options, emission.gather(-1, options.unsqueeze(-1)).squeeze(-1), float(log_prob.sum()))

    def cost(self, paths: HardPaths) -> float:
        """J."""
        return -paths.log_prob + self.price * (self.num_options - 1)

    def least_missed(self) -> int:
        """The option without which the best paths, through the others as they are, have the highest probability."""
        emission, prior = self.emission(), self.prior(self.num_options - 1)
        every = range(self.num_options)
        return max(every, key=lambda k: float(prior.viterbi(emission[..., [j for j in every if j != k]])[1].sum()))

    def switches(self, paths: HardPaths) -> Tensor:
        """Where the option changes, ``(N, T)``."""
        options, mask = paths.options, self.steps.mask
        return pad((options[:, 1:] != options[:, :-1]) & mask[:, 1:], (1, 0))

    def switch_price(self, num_options: int) -> float:
        """The price of a switch with K options: log-probability of continuing minus that of another option."""
        other = self.rate / num_options
        return math.log(1 - self.rate + other) - math.log(other)

    def refit(self, paths: HardPaths) -> None:
        """Fits options and ψ to these paths."""
        fit_policy(self.policy, self.steps.states, self.steps.actions, paths.options[self.steps.mask], ITERATIONS)
        self.rate = self.switch_rate(paths)

    def switch_rate(self, paths: HardPaths) -> float:
        """ψ for which the options of these paths change as often as they do; the present one if there is one option."""
        K, mask = self.num_options, self.steps.mask
        if K == 1:
            return self.rate
        changes = (int(self.switches(paths).sum()) + 1) / (int(mask[:, 1:].sum()) + 2)
        return min(0.5, changes * K / (K - 1))  # one termination in K draws the same option again

    def alternate(self, rounds: int = ALTERNATIONS) -> HardPaths:
        """Fits paths and options in turn, until the paths stay the same."""
        paths = self.best()
        for _ in range(rounds):
            self.refit(paths)
            paths, before = self.best(), paths
            if torch.equal(paths.options, before.options):
                break
        return paths

    def remove(self, gone: int) -> None:
        """Removes an option."""
        resize([self.policy], [k for k in range(self.num_options) if k != gone])

    @torch.no_grad()
    def append(self, source: Any, chosen: list[int]) -> None:
        """Adds copies of the chosen options of another policy of the same kind."""
        K = self.num_options
        resize([self.policy], range(K), len(chosen))
        copy_components([self.policy], range(K, K + len(chosen)), [source], chosen)
