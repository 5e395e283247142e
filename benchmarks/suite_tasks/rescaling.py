"""The same task in other units."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pyro_options.data import Trajectories

from .task import Task

#: largest shift of an entry in its own (new) standard deviations, and range of the scales
SHIFT, SCALES = 100.0, (1e-3, 1e3)


@dataclass(frozen=True)
class Affine:
    """``scale * x + shift`` for every entry, in double precision: float32 would round the data themselves.

    Values that do not change keep their type.
    """

    scale: Tensor  # (D,) float64
    shift: Tensor  # (D,) float64

    def __call__(self, values: Tensor) -> Tensor:
        if bool((self.scale == 1).all()) and bool((self.shift == 0).all()):
            return values
        return values.double() * self.scale + self.shift

    def inverse(self, values: Tensor) -> Tensor:
        """The values before."""
        return ((values.double() - self.shift) / self.scale).to(values.dtype)


@dataclass(frozen=True)
class Rescaled:
    """A task in other units."""

    task: Task
    states: Affine
    actions: Affine | None  # None for discrete actions
    log_determinant: Tensor  # (N, T) nats to add to the rescaled task's log-likelihood, to get the original's


def _random_affine(values: Tensor, generator: torch.Generator) -> Affine:
    """A random change of each column of ``(S, D)`` values, but not of columns with at most two (bits, a gripper)."""
    num = values.shape[-1]
    low, high = (math.log(x) for x in SCALES)
    scale = torch.exp(low + (high - low) * torch.rand(num, generator=generator, dtype=torch.float64))
    shift = SHIFT * (2 * torch.rand(num, generator=generator, dtype=torch.float64) - 1)
    shift = shift * scale * values.double().std(0)
    kept = torch.tensor([len(column.unique()) <= 2 for column in values.T])
    return Affine(scale.masked_fill(kept, 1.0), shift.masked_fill(kept, 0.0))


def rescaled(task: Task, seed: int) -> Rescaled:
    """A random affine change of each continuous entry of states and actions.

    The density of a continuous action shrinks by its scale; an action at a bound has a probability, which does not.
    """
    data, generator = task.trajectories, torch.Generator().manual_seed(seed)
    mask, actions = data.mask, data.actions
    assert actions is not None
    new_states = _random_affine(data.states[mask], generator)
    log_determinant = torch.zeros(mask.shape, dtype=torch.float64)
    change, bounds = None, task.action_bounds
    if not data.discrete:
        change = _random_affine(actions[mask], generator)
        inside = torch.ones_like(actions, dtype=torch.bool)
        if bounds is not None:
            inside = (actions > bounds[0]) & (actions < bounds[1])
        log_determinant = (inside * change.scale.log()).sum(-1) * mask
    new_actions = actions if change is None else change(actions)
    moved = Trajectories(new_states(data.states), new_actions, data.lengths, data.num_actions)
    made = replace(task, name=f"{task.name}_rescaled", trajectories=moved, action_bounds=None)
    return Rescaled(made, new_states, change, log_determinant)
