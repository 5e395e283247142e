"""Minibatches of episodes with what skills compute on them: the prior over option paths, and action likelihoods."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import InputError, check
from pyro_options.nn.standardized_inputs import StandardizedInputs
from pyro_options.options.families import ActionLayout
from pyro_options.options.path import OptionPath
from pyro_options.options.policies import GaussianPolicy, MixedPolicy
from pyro_options.options.state_path import StatePath
from pyro_options.options.transition_path import TransitionPath
from pyro_options.segments.path import SegmentPath

from .numpy_actions import known_indices
from .numpy_policy import layers_of
from .segmentation import FlatPlaces

if TYPE_CHECKING:
    from .skills import Skills


def _check_fits(skills: "Skills", data: Trajectories) -> None:
    actions = data.action_steps
    if actions is None:
        raise InputError("Expected demonstrations with actions but got none.")
    check(data.state_dim == skills.state_dim, f"states of {skills.state_dim} numbers", data.state_dim)
    if isinstance(skills.policy, MixedPolicy):
        layout = skills.policy.layout
        check(actions.shape == (layout.action_dim,), f"actions of {layout.action_dim} dimensions", actions.shape)
        _check_known(skills, layout, data)
        return
    single = actions.shape == () or not data.discrete
    check(single, f"one action a step, of {skills.action_dim}", f"{data.action_dim} of each of several")
    kind = "discrete" if skills.discrete else "continuous"
    check(data.discrete == skills.discrete, f"{kind} actions", "discrete" if data.discrete else "continuous")
    highest = data.action_dim
    if skills.discrete:
        highest = max(int(part.max()) for part in actions.chunks()) + 1
    fits = highest <= skills.action_dim if skills.discrete else highest == skills.action_dim
    check(fits, f"{skills.action_dim} {'actions' if skills.discrete else 'action dimensions'}", highest)


def _check_known(skills: "Skills", layout: ActionLayout, data: Trajectories) -> None:
    """Checks that categorical dimensions of actions have values that the skills know."""
    places, like, first = FlatPlaces(data.lengths.cpu()), skills.log_weights.cpu(), 0

    def name(step: int) -> str:
        at = torch.tensor(first + step)
        episode = int(places.episode_of(at))
        return f"episode {episode}, step {int(at - places.first[episode])}"

    for part in data.given_actions().chunks():
        known_indices(layout, part.cpu(), like, name)
        first += len(part)


def _path(skills: "Skills", batch: Trajectories, exact: Trajectories) -> OptionPath | SegmentPath:
    """The prior over option paths of these episodes."""
    if skills.segments is not None:
        return skills.segments.path(skills.log_weights, batch.mask)
    logits = skills.termination(_readable(skills.termination, batch, exact))
    if skills.log_rows is not None:
        return TransitionPath(torch.cat([skills.log_weights.unsqueeze(0), skills.log_rows]), logits, batch.mask)
    if skills.state_weights is not None:
        return StatePath(skills.state_weights.log_weights(skills.log_weights, batch.states), logits, batch.mask)
    return OptionPath(skills.log_weights, logits, batch.mask)


def _readable(module: nn.Module, batch: Trajectories, exact: Trajectories) -> Tensor:
    """The states as a policy or a termination reads them: in full precision if it standardizes them."""
    layers = layers_of(module.network)
    return exact.states if layers and isinstance(layers[0], StandardizedInputs) else batch.states


def _emission(skills: "Skills", batch: Trajectories, exact: Trajectories) -> tuple[Tensor, Tensor]:
    """log π_k(a_t | s_t) in standardized units, and the nats to add to each step in the user's units."""
    policy, states = skills.policy, _readable(skills.policy, batch, exact)
    if isinstance(policy, GaussianPolicy | MixedPolicy):
        return policy.standardized_log_prob(states, exact.given_actions().padded(), batch.mask)
    emission = policy(states, mask=batch.mask).component_log_prob(batch.actions)
    return emission, emission.new_zeros(batch.mask.shape)


def batches(
    skills: "Skills", data: Trajectories, size: int
) -> Iterator[tuple[Tensor, Trajectories, OptionPath | SegmentPath, Tensor, Tensor]]:
    """What skills compute on each of some batches of episodes.

    :returns: indices of episodes, a batch of them, the prior over its option paths, log π_k(a_t | s_t) ``(N, T, K)`` in
        standardized units, and the nats ``(N,)`` to add to the log-likelihood of an episode in the units of the data.
        So segmentations do not depend on the units, not even by rounding errors
    """
    _check_fits(skills, data)
    data = data.flat_states() if skills.state_shape is None else data
    for index in data.groups(min(size, data.rows_together())):
        exact = data.batch(index, skills.device)
        dtype = skills.log_weights.dtype
        batch = exact if exact.state_steps.dtype == dtype else exact.to(dtype=dtype)
        emission, nats = _emission(skills, batch, exact)
        yield index, batch, _path(skills, batch, exact), emission, nats.sum(-1).to(emission.dtype)


@torch.no_grad()
def option_posterior(skills: "Skills", trajectories: Trajectories, batch_size: int = 256) -> Tensor:
    """Probability of each option at each step given all actions of the episode, ``(steps, K)``; episodes in order."""
    places = FlatPlaces(trajectories.lengths.cpu())
    found = torch.zeros(trajectories.num_steps, skills.num_options, dtype=skills.log_weights.dtype)
    for index, batch, path, emission, _ in batches(skills, trajectories, batch_size):
        posterior = path.posterior(emission)
        check_scores(posterior.log_marginal, index)
        at, mask = places.of(index, batch.mask.shape[1])
        found[at[mask]] = posterior.options.cpu()[mask]
    return found


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
