"""Demonstrations as a data frame with a row for each step, and as CSV and Parquet files of such rows."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pyro_options.errors import check, choice, require
from pyro_options.persistence.storage import replacing

from .dataframes import EPISODE_COLUMNS, LEFT_OUT, STEP_COLUMNS
from .table_columns import episode_labels
from .trajectories import Trajectories


def _columns(data: Trajectories) -> dict[str, np.ndarray]:
    """The columns that :func:`~pyro_options.data.from_dataframe` reads: episode, step, states, actions."""
    lengths = data.lengths.cpu().numpy()
    step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    states = torch.cat(list(data.state_steps.chunks())).cpu().numpy()
    actions = torch.cat(list(data.given_actions().chunks())).cpu().numpy()
    names = data.state_names or [f"state_{i}" for i in range(states.shape[-1])]
    columns = {"episode": np.repeat(episode_labels(data.episode_names, len(lengths)), lengths), "step": step}
    columns |= {name: states[:, i] for i, name in enumerate(names)}
    if actions.ndim == 1:
        return columns | {"action": actions if data.action_names is None else np.array(data.action_names)[actions]}
    named = data.action_names or [str(i) for i in range(actions.shape[1])]
    return columns | {f"action_{name.removeprefix('action_')}": actions[:, i] for i, name in enumerate(named)}


def to_dataframe(trajectories: Trajectories, backend: str = "pandas") -> Any:
    """A data frame with a row for each step, which :func:`~pyro_options.data.from_dataframe` reads back.

    :param backend: ``pandas``, ``polars`` or ``pyarrow``, which must be installed
    """
    check(not trajectories.packed, "unpacked states", "packed bits", "Call unpack() first.")
    module = require(choice(backend, "backend", ("pandas", "polars", "pyarrow")), "tables")
    columns = _columns(trajectories)
    taken = {*EPISODE_COLUMNS, *STEP_COLUMNS, *LEFT_OUT, "action"} & set(trajectories.state_names or ())
    check(not taken, "names of states that are not those of other columns", sorted(taken), "Rename them: with_names().")
    return module.table(columns) if backend == "pyarrow" else module.DataFrame(columns)


def write_table(path: str | os.PathLike, trajectories: Trajectories) -> None:
    """Writes a CSV or Parquet file, by its ending, with a row for each step, atomically."""
    kind = choice(Path(path).suffix, "the ending of the file", (".csv", ".parquet"))
    table = to_dataframe(trajectories, "pyarrow")
    writer = require(f"pyarrow.{kind[1:]}", "tables")
    with replacing(path) as file:
        (writer.write_csv if kind == ".csv" else writer.write_table)(table, file)
