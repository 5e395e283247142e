"""Demonstrations from the HDF5 files of robomimic, which robosuite, MimicGen and LIBERO write too."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyro_options.errors import FileError, InputError, check, require

from .trajectories import Trajectories


def _demos(file: Any, filter_key: str | None) -> list[str]:
    """Names of the demonstrations, in the order of their numbers."""
    check("data" in file, "a group 'data' of demonstrations", ", ".join(file) or "an empty file")
    if filter_key is not None:
        known = list(file.get("mask", ()))
        check(filter_key in known, f"a filter key among {', '.join(known) or 'none'}", repr(filter_key))
        return [name.decode() if isinstance(name, bytes) else str(name) for name in file["mask"][filter_key][()]]
    numbers = {name: int(digits) for name in file["data"] if (digits := name.rpartition("_")[2]).isdigit()}
    check(bool(numbers), "groups data/demo_0, data/demo_1 and so on", ", ".join(file["data"]) or "none")
    return sorted(numbers, key=numbers.__getitem__)


def _default_keys(demo: Any) -> list[str]:
    """Observations that are vectors; images are left out."""
    if "obs" not in demo:
        check("states" in demo, "observations 'obs' or simulator states 'states'", ", ".join(demo))
        return []
    keys = [key for key, value in demo["obs"].items() if len(value.shape) <= 2]
    check(bool(keys), "observations that are vectors", ", ".join(demo["obs"]), "Name others with keys=…")
    return keys


def _array(group: Any, name: str, demo: str) -> np.ndarray:
    check(name in group, f"{name!r} in every demonstration", f"none in {demo}")
    return group[name][()]


def from_robomimic(
    path: str | os.PathLike,
    keys: Sequence[str] | None = None,
    filter_key: str | None = None,
    num_actions: int | Sequence[int] | None = None,
) -> Trajectories:
    """From a robomimic HDF5 file: ``data/demo_0/obs/…``, ``data/demo_0/actions`` and so on.

    :param keys: observations that make up the state, by default all that are vectors (images are left out); files
        without observations have simulator states, which are taken instead
    :param filter_key: read the demonstrations that ``mask/filter_key`` lists, such as ``train``
    :param num_actions: see :class:`~pyro_options.data.Trajectories`; only with integer actions
    """
    h5py = require("h5py", "robomimic")
    with open(path, "rb"):  # a missing file stays an OSError
        pass
    try:
        with h5py.File(path, "r") as file:
            demos = _demos(file, filter_key)
            chosen = _default_keys(file["data"][demos[0]]) if keys is None else list(keys)
            return _read(file["data"], demos, chosen, num_actions)
    except (OSError, InputError) as error:
        raise FileError(f"{os.fspath(path)}: {error}") from error


def _read(group: Any, demos: Sequence[str], keys: Sequence[str], num_actions: Any) -> Trajectories:
    pairs, names = [], []
    for demo in demos:
        check(demo in group, f"the demonstration {demo!r}", "none of that name")
        one = group[demo]
        parts = {key: _array(one["obs"], key, demo) for key in keys} or {"states": _array(one, "states", demo)}
        flat = {key: value.reshape(len(value), -1) for key, value in parts.items()}
        names = [
            key if part.shape[1] == 1 else f"{key}[{i}]" for key, part in flat.items() for i in range(part.shape[1])
        ]
        pairs.append((np.concatenate(list(flat.values()), -1), _array(one, "actions", demo)))
    return Trajectories.from_episodes(pairs, num_actions).with_names(names, episode_names=list(demos))
