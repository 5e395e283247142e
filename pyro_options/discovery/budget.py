"""Default epochs, batch size and learning rate for given demonstrations."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.infer.train_config import TrainConfig
from pyro_options.nn.standardized_inputs import StandardizedInputs, moments
from pyro_options.nn.varying_inputs import VaryingInputs


@dataclass(frozen=True)
class Budget:
    """Epochs, batch size and learning rate for given demonstrations; tuned on synthetic options and on Breakout.

    Batches have about ``batch_steps`` steps, and epochs are chosen for about ``updates`` optimizer steps. The learning
    rate of a linear policy is such that one update of Adam changes its output by about ``output_step``, whatever the
    number and scale of the inputs. With many inputs each weight then moves little per update, so training takes at
    least ``updates_per_input`` updates per active input.
    """

    batch_steps: int = 4800  # steps in a batch, at least one episode
    min_batches: int = 8  # per epoch
    updates: int = 4000  # target number of optimizer steps
    max_epochs: int = 100
    output_step: float = 0.4
    updates_per_input: int = 80
    max_slow_epochs: int = 300  # replaces max_epochs where updates_per_input asks for more updates
    deep_learning_rate: float = 5e-3  # with hidden layers
    network_learning_rate: float = 1e-3  # with a network of the user's own

    def train_config(
        self, data: Trajectories, hidden: Sequence[int], standardize: bool = True, network: bool = False
    ) -> TrainConfig:
        """The training settings for these demonstrations.

        :param hidden: widths of the shared state network; empty for linear policies
        :param standardize: whether networks see standardized states
        :param network: whether there is a state network of the user's own
        """
        N = len(data)
        batch_size = max(1, min(round(self.batch_steps * N / data.num_steps), math.ceil(N / self.min_batches)))
        batches = data.num_batches(batch_size)
        epochs = min(self.max_epochs, math.ceil(self.updates / batches))
        rate = self.network_learning_rate if network else self.deep_learning_rate
        if not hidden and not network:
            rate = min(0.1, self.output_step / (1 + varying_size(data, standardize)))
            if standardize and not data.packed:
                rate = float(f"{rate:.3g}")  # rounding errors of a change of units must not change the training
            updates = self.updates_per_input * (1 + active_inputs(data, standardize))
            epochs = max(epochs, min(self.max_slow_epochs, math.ceil(updates / batches)))
        return TrainConfig(epochs=epochs, batch_size=batch_size, learning_rate=rate)


def varying_inputs(data: Trajectories) -> VaryingInputs:
    """A layer that selects the entries of a state that vary in these demonstrations."""
    if data.packed:
        return VaryingInputs.from_bytes(data.state_steps)
    return VaryingInputs.from_states(data.state_steps)


def state_inputs(data: Trajectories, skip_constant: bool = True, standardize: bool = True) -> VaryingInputs | None:
    """The layer between states and networks: drops constant entries, standardizes; ``None`` for states as they are."""
    if not skip_constant and (data.packed or not standardize):
        return None
    selected = varying_inputs(data) if skip_constant else VaryingInputs(torch.arange(data.state_dim), data.state_dim)
    if data.packed or not standardize:
        return selected
    found = StandardizedInputs.fitted(selected, data.state_steps)
    return found if skip_constant or isinstance(found, StandardizedInputs) else None


def action_units(data: Trajectories) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each dimension of continuous actions, in double precision.

    For a constant dimension the second is its absolute value instead, or 1 if it is zero.
    """
    center, unit = moments(data.given_actions())
    size = torch.where(center == 0, 1.0, center.abs())
    return center, torch.where(unit == 0, size, unit)


def _varying_sizes(data: Trajectories, standardize: bool, num_episodes: int = 100) -> Callable[[], Iterator[Tensor]]:
    """A function that iterates over absolute values of the varying entries of the states ``(steps, entries)``.

    Of the first episodes, in parts.
    """
    data = data[:num_episodes]
    inputs = state_inputs(data, standardize=standardize)
    assert inputs is not None

    def parts() -> Iterator[Tensor]:
        for states in data.state_chunks():
            sizes = inputs(states).abs()
            yield sizes.float() if sizes.element_size() < 4 else sizes

    return parts


def _magnitude(sizes: Tensor) -> Tensor:
    """The power of two at or below each size. Dividing by it is exact and keeps squares and sums finite."""
    largest = sizes.clamp(min=torch.finfo(sizes.dtype).tiny)
    return largest / (2 * torch.frexp(largest).mantissa)


def varying_size(data: Trajectories, standardize: bool = False) -> float:
    """Mean L1 norm of the varying entries of a state."""
    parts = _varying_sizes(data, standardize)
    unit = _magnitude(torch.stack([sizes.max() for sizes in parts()]).max())
    return float(torch.cat([(sizes / unit).sum(-1) for sizes in parts()]).mean()) * float(unit)


def active_inputs(data: Trajectories, standardize: bool = False) -> float:
    r"""Effective number of non-zero varying entries of a state: the mean of :math:`(\sum|s|)^2 / \sum s^2`.

    For binary states it is the number of ones; it does not depend on the scale.
    """
    active = []
    for sizes in _varying_sizes(data, standardize)():
        sizes = sizes / _magnitude(sizes.amax(-1, keepdim=True))
        squares = sizes.square().sum(-1)
        active.append(sizes.sum(-1).square() / squares.clamp(min=torch.finfo(squares.dtype).tiny))
    return float(torch.cat(active).mean())
