"""Demonstrations from episodes as dicts or objects: those of d3rlpy, imitation and Minari, or your own."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pyro_options.errors import InputError, check

from .trajectories import Trajectories
from .validation import as_tensor, exact_floats

#: names under which an episode may have its states, and its actions
STATES = ("states", "observations", "observation", "obs")
ACTIONS = ("actions", "action", "acts")


def _part(episode: Any, names: Sequence[str], number: int) -> Any:
    """The first part of an episode that exists under one of the names."""
    for name in names:
        if isinstance(episode, Mapping):
            if name in episode:
                return episode[name]
        elif hasattr(episode, name):
            return getattr(episode, name)
    there = ", ".join(map(str, episode)) if isinstance(episode, Mapping) else type(episode).__name__
    raise InputError(
        f"Expected an episode with {' or '.join(map(repr, names))} but got {there} at episode {number}. "
        "Name the part with states=… or actions=…"
    )


def _flat(values: Any, number: int, prefix: str = "") -> tuple[np.ndarray, list[str]]:
    """Observations ``(T, D)`` and the name of each entry; dicts and tuples of arrays side by side."""
    if isinstance(values, Mapping | tuple):
        items = sorted(values.items()) if isinstance(values, Mapping) else enumerate(values)
        parts = [_flat(value, number, f"{prefix}.{key}" if prefix else str(key)) for key, value in items]
        check(bool(parts), "observations with at least one part", f"none at episode {number}")
        return np.concatenate([part for part, _ in parts], -1), [name for _, names in parts for name in names]
    array = as_tensor(values, f"states of episode {number}", padded=False).detach().cpu().numpy()
    check(array.ndim >= 1, "observations with a step axis", f"a single number at episode {number}")
    flat = array.reshape(len(array), -1)
    names = [prefix] if flat.shape[1] == 1 else [f"{prefix}[{i}]" for i in range(flat.shape[1])]
    return flat, names


def from_records(
    episodes: Iterable[Any],
    states: str | None = None,
    actions: str | None = None,
    num_actions: int | Sequence[int] | None = None,
    packed: bool = False,
) -> Trajectories:
    """From episodes that are dicts, or objects with attributes, of arrays.

    The episodes of d3rlpy (``dataset.episodes``), of imitation (``Trajectory``) and of Minari are such objects. A final
    observation without an action is dropped. Observations that are dicts or tuples of arrays are put side by side, and
    their keys become names; arrays of more dimensions are flattened; integers become float32.

    >>> from_records([{"observations": [[0.0], [1.0], [2.0]], "actions": [1, 0]}])
    Trajectories(1 episodes of 2 steps, states 1 × torch.float32, 2 discrete actions)

    :param states: the part that holds states, by default the first of ``states``, ``observations``, ``obs``
    :param actions: the part that holds actions, by default the first of ``actions``, ``acts``
    :param num_actions: see :class:`~pyro_options.data.Trajectories`
    :param packed: store bytes, and use their bits as states
    """
    check(not isinstance(episodes, str | Mapping), "a list of episodes", type(episodes).__name__)
    pairs, names = [], []
    for i, episode in enumerate(episodes):
        observed = _part(episode, STATES if states is None else (states,), i)
        seen, entries = _flat(observed, i)
        acted = as_tensor(_part(episode, ACTIONS if actions is None else (actions,), i), f"actions of episode {i}")
        single = acted.dim() == 2 and acted.shape[1] == 1 and not acted.is_floating_point()  # d3rlpy's discrete ones
        pairs.append((seen if packed else exact_floats(seen, i, "Scale them first."), acted[:, 0] if single else acted))
        if i == 0 and isinstance(observed, Mapping):
            names = entries
    data = Trajectories.from_episodes(pairs, num_actions, packed)
    return data.with_names(names or None)
