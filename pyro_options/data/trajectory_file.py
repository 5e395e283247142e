"""The npz file of demonstrations: padded or flat arrays, and a header."""

import os
from typing import TYPE_CHECKING

import numpy as np
import torch

from pyro_options.errors import check

from .archive import array_names, naming, read_archive, write_archive

if TYPE_CHECKING:
    from .trajectories import Trajectories

_FORMAT = "pyro_options.Trajectories/1"  # padded arrays
_FLAT_FORMAT = "pyro_options.Trajectories/2"  # flat arrays
_NAMES = ("state_names", "action_names", "episode_names")  # in a file where they are known
_HEADER = ("format", "packed", "acts", "num_actions")


def write_trajectories(path: str | os.PathLike, data: "Trajectories") -> None:
    """Writes demonstrations, atomically."""
    flat = not data.state_steps.is_padded
    stores = {"states": data.state_steps, "actions": data.action_steps}
    arrays = {
        name: torch.cat(list(steps.chunks())) if flat else steps.padded()
        for name, steps in stores.items()
        if steps is not None
    } | {"lengths": data.lengths}
    if data.action_bounds is not None:
        arrays["action_bounds"] = data.action_bounds
    for name, value in arrays.items():
        fix = "numpy has no such type: convert with .to(dtype=torch.float32)."
        check(value.dtype is not torch.bfloat16, f"{name} of a type that numpy has", value.dtype, fix)
    header = {
        "format": np.array(_FLAT_FORMAT if flat else _FORMAT),
        "packed": np.array(data.packed),
        "acts": np.array(data.action_steps is not None),
        "num_actions": np.array(-1 if data.num_actions is None else data.num_actions),
    }
    if data.state_shape is not None:
        header["state_shape"] = np.array(data.state_shape)
    header |= {name: np.array(value) for name in _NAMES if (value := getattr(data, name)) is not None}
    write_archive(path, header | {name: value.detach().cpu().numpy() for name, value in arrays.items()})


def read_trajectories(path: str | os.PathLike, kind: type["Trajectories"], max_bytes: int) -> "Trajectories":
    """Reads and validates a file of either format."""
    header = read_archive(path, _HEADER, max_bytes, {"format": "Read other npz files with from_npz."})
    try:
        form, packed, acts, num_actions = (header[name].tolist() for name in _HEADER)
        known = form in (_FORMAT, _FLAT_FORMAT)
        check(known, f"the format {_FORMAT!r}", repr(form), "Read other npz files with from_npz.")
        known_too = [name for name in ("action_bounds", "state_shape", *_NAMES) if name in array_names(path)]
        names = ["states", "lengths"] + ["actions"] * bool(acts) + known_too
        arrays = read_archive(path, names, max_bytes=max_bytes)
        if "state_shape" in arrays:
            states = arrays["states"]
            arrays["states"] = states.reshape(*states.shape[:-1], *arrays["state_shape"].tolist())
        data = (kind if form == _FORMAT else kind.from_flat)(
            arrays["states"],
            arrays.get("actions"),
            arrays["lengths"],
            None if num_actions == -1 else num_actions,
            packed=bool(packed),
            copy=False,
            action_bounds=arrays.get("action_bounds"),
        )
        return data.with_names(*(arrays[name].tolist() if name in arrays else None for name in _NAMES))
    except (TypeError, ValueError) as error:
        raise naming(path, error) from error
