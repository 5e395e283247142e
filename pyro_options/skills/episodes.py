"""Minibatches of episodes with what skills compute on them: the prior over option paths, and action likelihoods."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import InputError, check
from pyro_options.options.path import OptionPath
from pyro_options.options.state_path import StatePath
from pyro_options.segments.path import SegmentPath

if TYPE_CHECKING:
    from .skills import Skills


def _check_fits(skills: "Skills", data: Trajectories) -> None:
    if data.action_steps is None:
        raise InputError("Expected demonstrations with actions but got none.")
    check(data.state_dim == skills.state_dim, f"states of {skills.state_dim} numbers", data.state_dim)
    kind = "discrete" if skills.discrete else "continuous"
    check(data.discrete == skills.discrete, f"{kind} actions", "discrete" if data.discrete else "continuous")
    highest = data.action_dim
    if skills.discrete:
        highest = max(int(part.max()) for part in data.action_steps.chunks()) + 1
    fits = highest <= skills.action_dim if skills.discrete else highest == skills.action_dim
    check(fits, f"{skills.action_dim} {'actions' if skills.discrete else 'action dimensions'}", highest)


def _path(skills: "Skills", batch: Trajectories) -> OptionPath | SegmentPath:
    """The prior over option paths of these episodes."""
    if skills.segments is not None:
        return skills.segments.path(skills.log_weights, batch.mask)
    logits = skills.termination(batch.states)
    if skills.state_weights is not None:
        return StatePath(skills.state_weights.log_weights(skills.log_weights, batch.states), logits, batch.mask)
    return OptionPath(skills.log_weights, logits, batch.mask)


def batches(
    skills: "Skills", data: Trajectories, size: int
) -> Iterator[tuple[Tensor, Trajectories, OptionPath | SegmentPath, Tensor]]:
    """Indices of episodes, a batch of them, the prior over its option paths, and log π_k(a_t | s_t) ``(N, T, K)``."""
    _check_fits(skills, data)
    for index in data.groups(min(size, data.rows_together())):
        batch = data.batch(index, skills.device)
        if batch.states.dtype != skills.log_weights.dtype:
            batch = batch.to(dtype=skills.log_weights.dtype)
        emission = skills.policy(batch.states, mask=batch.mask).component_log_prob(batch.actions)
        yield index, batch, _path(skills, batch), emission


def check_scores(scores: Tensor, episodes: Tensor) -> None:
    """Raises if the log-likelihood of an episode is not finite.

    :param scores: log-likelihoods ``(N,)``
    :param episodes: indices of these episodes in the data set, for the message
    """
    bad = (~scores.isfinite()).nonzero()
    if len(bad):
        raise InputError(
            f"Expected states and actions that {scores.dtype} can square but got larger ones at episode "
            f"{int(episodes[bad[0]])}. Drop that episode, or scale what the skills are trained on."
        )
