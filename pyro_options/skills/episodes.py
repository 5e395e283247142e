"""Minibatches of episodes with what skills compute on them: the prior over option paths, and action likelihoods."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import InputError, check
from pyro_options.options.path import OptionPath
from pyro_options.options.policies import MixedPolicy
from pyro_options.options.state_path import StatePath
from pyro_options.options.transition_path import TransitionPath
from pyro_options.segments.path import SegmentPath

from .numpy_actions import known_indices

if TYPE_CHECKING:
    from .skills import Skills


def _check_fits(skills: "Skills", data: Trajectories) -> None:
    if data.actions is None:
        raise InputError("Expected demonstrations with actions but got none.")
    check(data.state_dim == skills.state_dim, f"states of {skills.state_dim} numbers", data.state_dim)
    if isinstance(skills.policy, MixedPolicy):
        layout = skills.policy.layout
        whole = data.actions.dim() == 3 and data.actions.shape[-1] == layout.action_dim
        check(whole, f"actions of {layout.action_dim} dimensions", tuple(data.actions.shape))
        known_indices(layout, data.actions.cpu(), skills.log_weights.cpu(), data.mask.cpu())
        return
    single = data.actions.dim() == 2 or not data.discrete
    check(single, f"one action a step, of {skills.action_dim}", f"{data.action_dim} of each of several")
    kind = "discrete" if skills.discrete else "continuous"
    check(data.discrete == skills.discrete, f"{kind} actions", "discrete" if data.discrete else "continuous")
    highest = int(data.actions.max()) + 1 if skills.discrete else data.action_dim
    fits = highest <= skills.action_dim if skills.discrete else highest == skills.action_dim
    check(fits, f"{skills.action_dim} {'actions' if skills.discrete else 'action dimensions'}", highest)


def _path(skills: "Skills", batch: Trajectories) -> OptionPath | SegmentPath:
    """The prior over option paths of these episodes."""
    if skills.segments is not None:
        return skills.segments.path(skills.log_weights, batch.mask)
    logits = skills.termination(batch.states)
    if skills.log_rows is not None:
        return TransitionPath(torch.cat([skills.log_weights.unsqueeze(0), skills.log_rows]), logits, batch.mask)
    if skills.state_weights is not None:
        return StatePath(skills.state_weights.log_weights(skills.log_weights, batch.states), logits, batch.mask)
    return OptionPath(skills.log_weights, logits, batch.mask)


def batches(
    skills: "Skills", data: Trajectories, size: int
) -> Iterator[tuple[Trajectories, OptionPath | SegmentPath, Tensor]]:
    """Minibatches, the prior over their option paths, and log π_k(a_t | s_t) ``(N, T, K)``."""
    _check_fits(skills, data)
    for batch in data.minibatches(min(size, data.rows_together()), device=skills.device):
        if batch.states.dtype != skills.log_weights.dtype:
            batch = batch.to(dtype=skills.log_weights.dtype)
        emission = skills.policy(batch.states, mask=batch.mask).component_log_prob(batch.actions)
        yield batch, _path(skills, batch), emission


def check_scores(scores: Tensor, start: int) -> None:
    """Raises if the log-likelihood of an episode is not finite.

    :param scores: log-likelihoods ``(N,)``
    :param start: index of the first of these episodes in the data set, for the message
    """
    bad = (~scores.isfinite()).nonzero()
    if len(bad):
        raise InputError(
            f"Expected states and actions that {scores.dtype} can square but got larger ones at episode "
            f"{start + int(bad[0])}. Drop that episode, or scale what the skills are trained on."
        )
