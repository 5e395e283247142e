"""A task of the suite: demonstrations with the true sub-task of every step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pyro_options.data import Trajectories

#: label of the padding
PADDING = -1


@dataclass(frozen=True)
class Task:
    """Demonstrations and the truth that discovery is compared with."""

    name: str
    trajectories: Trajectories
    labels: Tensor | None  # (N, T) true sub-task of each step, PADDING beyond an episode's end; None if there is none
    num_options: int | None  # true number of sub-tasks
    action_bounds: tuple[float, float] | None = None  # where continuous actions saturate
    own_model: bool = False  # whether the data were sampled from the model that is fitted


@dataclass(frozen=True)
class Episode:
    """One demonstration as it was recorded."""

    states: Sequence[Any]  # T_i states
    actions: Sequence[Any]  # T_i actions
    labels: Sequence[int]  # T_i sub-tasks


def make_task(name: str, episodes: Sequence[Episode], num_options: int, num_actions: int | None = None, **more) -> Task:
    """A task from its episodes.

    :param num_actions: number of discrete actions; ``None`` if actions are continuous
    :param more: other fields of :class:`Task`
    """
    kind = np.float32 if num_actions is None else np.int64
    pairs = [(np.asarray(e.states, np.float32), np.asarray(e.actions, kind)) for e in episodes]
    labels = [torch.as_tensor(np.asarray(e.labels, np.int64)) for e in episodes]
    data = Trajectories.from_episodes(pairs, num_actions)
    return Task(name, data, pad_sequence(labels, True, PADDING), num_options, **more)
