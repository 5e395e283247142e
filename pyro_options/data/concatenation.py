"""Several sets of demonstrations as one."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pyro_options.errors import check

from .ingestion import is_ragged
from .steps import FlatSteps, PaddedSteps, Steps
from .trajectories import Trajectories


def _flat(steps: Steps) -> FlatSteps:
    """A flat store of the same values, without a copy where that is possible."""
    if isinstance(steps, FlatSteps):
        return steps
    if isinstance(steps, PaddedSteps):
        return FlatSteps.of_rows(steps.values, steps.lengths)
    return FlatSteps.joined(list(steps.chunks()), steps.lengths, steps.width)


def _joined(stores: Sequence[Steps], large: bool = False) -> Steps:
    """One store of all episodes: padded if that is small and in memory, else flat, with the arrays as they are."""
    parts, first = [_flat(steps) for steps in stores], 0
    arrays: list[Tensor] = []
    number: list[Tensor] = []
    for part in parts:
        number.append(part.array + first)
        arrays += part.arrays
        first += len(part.arrays)
    starts, lengths = torch.cat([part.start for part in parts]), torch.cat([part.lengths for part in parts])
    width, mapped = max(part.width for part in parts), any(part.mapped for part in parts)
    kind = parts[0].dtype, parts[0].device, mapped
    flat = FlatSteps(tuple(arrays), torch.cat(number), starts, lengths, width, *kind)
    return flat if mapped or large or is_ragged(lengths, width) else PaddedSteps(flat.padded(), lengths)


def concatenate(parts: Sequence[Trajectories]) -> Trajectories:
    """All episodes of several sets of demonstrations, in order. They must have the same kind of states and actions.

    Numbers of actions may differ unless they have names: the largest counts. Bounds of actions are kept if all agree,
    labels of episodes if all have them.
    """
    parts = list(parts)
    check(bool(parts), "at least one set of demonstrations", "none")
    for i, part in enumerate(parts):
        check(isinstance(part, Trajectories), "Trajectories", f"{type(part).__name__} at position {i}")
        for name in ("states", "actions", "packed", "state_shape", "state_names", "action_names", "device"):
            here, there = _kind(part, name), _kind(parts[0], name)
            check(here == there, f"the {name} of the first set, {there},", f"{here} at position {i}")
    if len(parts) == 1:
        return parts[0].alone()
    counts = [part.num_actions for part in parts]
    most: Any = tuple(map(max, *counts)) if isinstance(counts[0], tuple) else counts[0] and max(counts)  # type: ignore
    actions = [part.action_steps for part in parts if part.action_steps is not None]
    bounds = [part.action_bounds for part in parts]
    labels = [part.episode_names for part in parts]
    agree = all(one is not None and bounds[0] is not None and torch.equal(one, bounds[0]) for one in bounds)
    return parts[0]._replace(
        state_steps=_joined([part.state_steps for part in parts], large=parts[0].state_shape is not None),
        action_steps=_joined(actions) if actions else None,
        num_actions=most,
        action_bounds=bounds[0] if agree else None,
        episode_names=None if None in labels else tuple(label for part in labels for label in part or ()),
        population=None,
        dataset_size=None,
    )


def _kind(data: Trajectories, name: str) -> Any:
    """What must not differ: shape and type of a store, names, or any other field."""
    if name in ("states", "actions"):
        steps = data.state_steps if name == "states" else data.action_steps
        return None if steps is None else (steps.shape, steps.dtype)
    return getattr(data, name)
