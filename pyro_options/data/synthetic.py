"""Demonstrations sampled from known options, to test whether discovery recovers them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_options.errors import check, check_count
from pyro_options.options.path import OptionPath
from pyro_options.options.policies import CategoricalPolicy, GaussianPolicy, Termination
from pyro_options.options.transition_path import TransitionPath

from .trajectories import Trajectories


@dataclass(frozen=True)
class Synthetic:
    """Demonstrations with their ground truth.

    They are sampled from ``OptionHMM(policy, termination, "truncated")`` at ``log_weights``.
    """

    trajectories: Trajectories
    options: Tensor  # (N, T) true option of each step
    switches: Tensor  # (N, T) b_t: an option was drawn here, perhaps the same again; true at the first step
    policy: CategoricalPolicy | GaussianPolicy
    termination: Termination
    log_weights: Tensor  # (K,)
    log_rows: Tensor | None = None  # (K, K) of the next option after each, if not the weights

    @property
    def path(self) -> OptionPath:
        """The prior over option paths of these episodes under the true model, before the actions are observed."""
        data = self.trajectories
        return _path(self.log_weights, self.log_rows, self.termination(data.states), data.mask)

    def best_options(self) -> Tensor:
        """The most probable options under the true model (Viterbi), ``(N, T)``: the reference for discovery."""
        data = self.trajectories
        return self.path.viterbi(self.policy(data.states).component_log_prob(data.actions))[0]


def _path(log_weights: Tensor, log_rows: Tensor | None, termination_logits: Tensor, mask: Tensor) -> OptionPath:
    if log_rows is None:
        return OptionPath(log_weights, termination_logits, mask)
    return TransitionPath(torch.cat([log_weights.unsqueeze(0), log_rows]), termination_logits, mask)


def _categorical(state_dim: int, num_options: int, num_actions: int, separation: float) -> CategoricalPolicy:
    """Each option prefers one action (by its bias); random weights make the choice depend on the state."""
    policy = CategoricalPolicy(state_dim, num_options, num_actions)
    heads = policy.heads
    heads.weight.normal_(0, separation / math.sqrt(state_dim))
    heads.bias.zero_()
    k = torch.arange(num_options)
    heads.bias[k, k % num_actions] = 2 * separation
    return policy


def _gaussian(state_dim: int, num_options: int, action_dim: int, separation: float) -> GaussianPolicy:
    """The mean action of each option: a point on the unit circle plus a small linear function of the state."""
    policy = GaussianPolicy(state_dim, num_options, action_dim)
    heads = policy.heads
    heads.weight.normal_(0, 0.3 / math.sqrt(state_dim))
    heads.bias.zero_()
    angle = 2 * math.pi * torch.arange(num_options) / num_options
    heads.bias[:, 0] = torch.cos(angle)
    if action_dim > 1:
        heads.bias[:, 1] = torch.sin(angle)
    policy.log_scale.value.fill_(-math.log(separation))
    return policy


def _termination(state_dim: int, num_options: int, mean_duration: float) -> Termination:
    """Option k stops where entry k of the state is large, after ``mean_duration`` steps on average."""
    termination = Termination(state_dim, num_options)
    heads, sharpness = termination.heads, 4.0
    heads.weight.zero_()
    k = torch.arange(num_options)
    heads.weight[k, 0, k % state_dim] = sharpness
    states = torch.special.ndtri((torch.arange(2000) + 0.5) / 2000)
    low, high = 0.0, 10.0
    for _ in range(50):  # bisection: the threshold whose mean termination probability is 1 / mean_duration
        threshold = (low + high) / 2
        rate = float(torch.sigmoid(sharpness * (states - threshold)).mean())
        low, high = (threshold, high) if rate > 1 / mean_duration else (low, threshold)
    heads.bias.fill_(-sharpness * threshold)
    return termination


@torch.no_grad()
def synthetic_options(
    num_options: int = 5,
    num_episodes: int = 200,
    lengths: tuple[int, int] = (20, 80),
    state_dim: int = 8,
    num_actions: int | None = 6,
    action_dim: int = 2,
    mean_duration: float = 10.0,
    separation: float = 5.0,
    seed: int = 0,
    transitions: Tensor | None = None,
) -> Synthetic:
    """Samples demonstrations from an option model with linear policies and terminations.

    States are standard normal, and options are equally likely.

    :param lengths: shortest and longest episode; lengths are uniform in between
    :param num_actions: number of discrete actions, at least ``num_options`` to tell options apart; ``None`` for
        continuous actions
    :param action_dim: dimensions of a continuous action
    :param mean_duration: steps between terminations
    :param separation: how distinct options are: scale of the logits, or of continuous actions the inverse of the
        standard deviation
    :param seed: of options and episodes
    :param transitions: probabilities of the next option after each, ``(K, K)``; equal ones by default
    """
    check_count(num_options, "num_options")
    check_count(num_episodes, "num_episodes")
    check_count(state_dim, "state_dim")
    check_count(seed, "seed", 0)
    check(1 <= lengths[0] <= lengths[1], "lengths (shortest, longest) with 1 <= shortest <= longest", lengths)
    check(mean_duration > 2, "mean_duration > 2", mean_duration)
    check(separation > 0, "separation > 0", separation)
    if transitions is not None:
        shape = (num_options, num_options)
        check(transitions.shape == shape, f"transitions of shape {shape}", tuple(transitions.shape))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy: CategoricalPolicy | GaussianPolicy
        if num_actions is None:
            policy = _gaussian(state_dim, num_options, action_dim, separation)
        else:
            policy = _categorical(state_dim, num_options, num_actions, separation)
        policy, termination = policy.requires_grad_(False), _termination(state_dim, num_options, mean_duration)
        termination.requires_grad_(False)
        steps = torch.randint(lengths[0], lengths[1] + 1, (num_episodes,))
        states = torch.randn(num_episodes, int(steps.max()), state_dim)
        mask = torch.arange(states.shape[1]) < steps.unsqueeze(-1)
        log_weights = torch.full((num_options,), -math.log(num_options))
        log_rows = None if transitions is None else torch.log(transitions.clamp(min=1e-30))
        path = _path(log_weights, log_rows, termination(states), mask).sample()  # (N, T, K + 1)
        actions = policy(states, path, mask).sample()
    trajectories = Trajectories(states, actions, steps, num_actions, copy=False)
    options, switches = path[..., 1:].argmax(-1), path[..., 0] > 0.5
    return Synthetic(trajectories, options, switches, policy, termination, log_weights, log_rows)
