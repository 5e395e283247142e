"""How long and how fast to train on given demonstrations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.infer.trainer import TrainConfig
from pyro_options.nn.varying_inputs import VaryingInputs


@dataclass(frozen=True)
class Budget:
    """How long and how fast to train on given demonstrations; measured on synthetic options and on Breakout.

    What counts is the number of updates. So episodes are trained on few at a time, more of them where they are short,
    and passed over more often where there are few. A linear layer learns at a rate that moves its output by about
    ``output_step`` in one update whatever the number and size of its inputs, which are 200 bits in one data set and
    six metres in another. The more inputs share an output, the less each of their weights moves in an update: many
    inputs take more updates, ``updates_per_input`` of them.
    """

    batch_steps: int = 4800  # steps in a batch, at least one episode
    min_batches: int = 8  # in an epoch
    updates: int = 4000  # to aim at
    max_epochs: int = 100
    output_step: float = 0.4
    updates_per_input: int = 80
    max_slow_epochs: int = 300  # where many inputs ask for more than the updates above
    deep_learning_rate: float = 5e-3  # where hidden layers see the states

    def train_config(self, data: Trajectories, hidden: Sequence[int]) -> TrainConfig:
        """Epochs, batch size and learning rate for these demonstrations."""
        N = len(data)
        batch_size = max(1, min(round(self.batch_steps * N / data.num_steps), math.ceil(N / self.min_batches)))
        batches = math.ceil(N / batch_size)
        epochs = min(self.max_epochs, math.ceil(self.updates / batches))
        rate = self.deep_learning_rate
        if not hidden:
            rate = min(0.1, self.output_step / (1 + varying_size(data)))
            updates = self.updates_per_input * (1 + active_inputs(data))
            epochs = max(epochs, min(self.max_slow_epochs, math.ceil(updates / batches)))
        return TrainConfig(epochs=epochs, batch_size=batch_size, learning_rate=rate)


def varying_inputs(data: Trajectories) -> VaryingInputs:
    """The entries of a state that vary in these demonstrations."""
    if data.packed:
        return VaryingInputs.from_bytes(data.stored, data.mask)
    return VaryingInputs.from_states(data.states, data.mask)


def _varying_sizes(data: Trajectories, num_episodes: int = 100) -> Tensor:
    """Absolute values of those entries of a state that vary ``(steps, entries)``, over the first episodes."""
    data = data[:num_episodes]
    sizes = varying_inputs(data)(data.states)[data.mask].abs()
    return sizes.float() if sizes.element_size() < 4 else sizes


def _magnitude(sizes: Tensor) -> Tensor:
    """The power of two at or below the largest size. To divide by it is exact, and keeps squares and sums finite."""
    largest = sizes.clamp(min=torch.finfo(sizes.dtype).tiny)
    return largest / (2 * torch.frexp(largest).mantissa)


def varying_size(data: Trajectories) -> float:
    """The mean sum of absolute values of those entries of a state that vary."""
    sizes = _varying_sizes(data)
    unit = _magnitude(sizes.max())
    return float((sizes / unit).sum(-1).mean()) * float(unit)


def active_inputs(data: Trajectories) -> float:
    r"""How many of the entries that vary a state has at a time: the mean of :math:`(\sum|s|)^2 / \sum s^2`.

    The number of ones where states are bits; the unit of measurement makes no difference.
    """
    sizes = _varying_sizes(data)
    sizes = sizes / _magnitude(sizes.amax(-1, keepdim=True))
    squares = sizes.square().sum(-1)
    return float((sizes.sum(-1).square() / squares.clamp(min=torch.finfo(squares.dtype).tiny)).mean())
