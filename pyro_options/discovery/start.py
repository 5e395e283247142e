"""Initial options that each imitate one stretch of a demonstration."""

import math
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pyro_options.data.trajectories import Trajectories
from pyro_options.growth.growable import growables
from pyro_options.options.policies import LogScale

#: steps of a stretch at most, and as a share of the mean length of an episode
LENGTH = 15
SHARE = 0.25

#: stretches are as long as that, or a fraction of it
DIVISORS = (1, 2, 4)

#: Adam steps of the fit
STEPS = 100
LEARNING_RATE = 0.05

#: of a Gaussian policy, in multiples of the standard deviation of the actions. A few steps may be fitted perfectly; an
#: option so certain would explain nothing else
SMALLEST_LOG_SCALE = -2.0


def stretches(data: Trajectories, count: int, length: int | Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Random stretches of at most ``length`` consecutive steps, of long episodes more often.

    :param length: of all of them, or of each
    :returns: states ``(count, longest, D)``, actions and the mask of steps that exist
    """
    lengths, most = data.lengths.cpu(), torch.as_tensor(length).expand(count)
    rows = torch.multinomial(lengths.double(), count, replacement=True)
    first = (torch.rand(count) * (lengths[rows] - most + 1).clamp(min=1)).long()
    states, actions = [], []
    for row, start, size in zip(rows.tolist(), first.tolist(), most.tolist()):
        stop = min(start + size, int(lengths[row]))
        episode = data[row : row + 1].cut(stop).unpack()
        states.append(episode.state_steps.episode(0)[start:])
        actions.append(episode.given_actions().episode(0)[start:])
    mask = pad_sequence([torch.ones(len(one), dtype=torch.bool, device=one.device) for one in states], True)
    return pad_sequence(states, True), pad_sequence(actions, True), mask


def stretch_length(data: Trajectories) -> int:
    """Steps of a stretch that is likely to be one behaviour."""
    return max(2, min(LENGTH, math.ceil(SHARE * data.num_steps / len(data))))


def stretch_lengths(data: Trajectories, count: int) -> list[int]:
    """Steps of several stretches: that of :func:`stretch_length`, half and a quarter of it in turn.

    Short ones are more often a single behaviour, long ones say more about it.
    """
    longest = stretch_length(data)
    return [max(2, longest // divisor) for divisor in islice(cycle(DIVISORS), count)]


def start_from_stretches(
    policy: Any,
    data: Trajectories,
    steps: int = STEPS,
    rate: float = LEARNING_RATE,
) -> None:
    """Fits each option to a stretch.

    Options that start alike share out the steps of every behaviour between them, each taking the states where it
    happens to be a little better, and training rarely gets out of that. A stretch is mostly one behaviour, and an
    option that explains all of it tends to explain that behaviour wherever it occurs.

    :param policy: a policy of :mod:`pyro_options.options`
    :param data: demonstrations
    """
    K = policy.num_options
    states, actions, mask = stretches(data, K, stretch_lengths(data, K))
    dtype = next(policy.parameters()).dtype
    policy.double()  # so that the rounding errors of other units do not grow into another start
    states, actions = states.double(), actions.double() if actions.is_floating_point() else actions
    # the parameters of the options alone: so few steps would spoil a network that they share
    moving = [getattr(layer, name) for layer in growables([policy]) for name in layer.component_axes]
    # a large eps: Adam would otherwise turn the rounding errors of tiny gradients into steps, and units would matter
    optimizer = torch.optim.Adam(moving, lr=rate, eps=1e-3)
    scales = [layer.value for layer in growables([policy]) if isinstance(layer, LogScale)]
    with torch.no_grad():
        features = policy.features(states)
    for _ in range(steps):
        loss = -(policy.own_log_prob(features, actions) * mask).sum() / mask.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for scale in scales:
                scale.clamp_(min=SMALLEST_LOG_SCALE)
    policy.zero_grad(set_to_none=True)
    policy.to(dtype)
