"""Demonstrations from data frames with a row for each step, and from CSV and Parquet files of such rows."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyro_options.errors import FileError, InputError, check, require

from .table_columns import actions_of, read_column, state_entries
from .trajectories import Trajectories

#: names of the column that tells episodes apart, if none is given
EPISODE_COLUMNS = ("episode", "episode_id", "episode_index", "episode_idx", "trial_id", "session")

#: names of the column that orders the steps of an episode, if none is given
STEP_COLUMNS = ("step", "timestep", "frame_index", "t")

#: columns that are no part of a state unless they are asked for
LEFT_OUT = (
    *("index", "timestamp", "reward", "rewards", "return", "done", "terminal", "terminated", "truncated"),
    *("next.reward", "next.done", "next.success", "task_index", "subtask_index"),
)


def _found(columns: Sequence[str], given: str | None, candidates: Sequence[str], what: str) -> str:
    """The column ``given``, else the first of the candidates that exists; raises if there is none."""
    names = [given] if given is not None else [name for name in candidates if name in columns]
    fix = f"Name it with {what}=…" if given is None else "Check the spelling."
    expected = repr(given) if given is not None else f"a column {' or '.join(map(repr, candidates[:3]))}"
    check(bool(names) and names[0] in columns, f"{expected} for the {what}", ", ".join(columns), fix)
    return names[0]


def _action_columns(columns: Sequence[str], given: str | Sequence[str] | None) -> list[str]:
    if given is not None:
        names = [given] if isinstance(given, str) else list(given)
        check(bool(names), "at least one column of actions", "none")
        return [_found(columns, name, (), "actions") for name in names]
    names = [name for name in ("action", "actions") if name in columns][:1]
    names = names or [name for name in columns if name.lower().startswith(("action", "act_"))]
    there = ", ".join(columns)
    check(bool(names), "a column 'action', or columns whose names begin so", there, "Name them with actions=…")
    return names


def from_dataframe(
    frame: Any,
    episode: str | None = None,
    actions: str | Sequence[str] | None = None,
    states: Sequence[str] | None = None,
    step: str | None = None,
    num_actions: int | Sequence[int] | None = None,
) -> Trajectories:
    """From a data frame (pandas, Polars, PyArrow, or any other that narwhals reads) with a row for each step.

    Numbers are used as they are. Text and categories become discrete actions with names, and one-hot entries of the
    state; a column of lists becomes several entries. Columns keep their names, see
    :meth:`~pyro_options.data.Trajectories.with_names`.

    :param episode: the column that tells episodes apart, by default the first of :data:`EPISODE_COLUMNS`; episodes are
        in the order in which they appear, and tables of their segments have its values
    :param actions: one or more columns: whole numbers or categories for discrete actions, other numbers for continuous
        ones; by default ``action`` or all that begin so
    :param states: columns of the state, by default all others but :data:`LEFT_OUT`
    :param step: the column that orders the steps of an episode, by default the first of :data:`STEP_COLUMNS`; without
        one, rows are in order
    :param num_actions: see :class:`~pyro_options.data.Trajectories`; by default the number of categories
    """
    narwhals = require("narwhals", "tables")
    try:
        table = narwhals.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InputError(f"Expected a data frame in memory but got {type(frame).__name__}: {error}") from error
    columns = list(table.columns)
    check(len(table) >= 1, "at least one row", "none")
    owner = _found(columns, episode, EPISODE_COLUMNS, "episode")
    acted = _action_columns(columns, actions)
    ordered = step or next((name for name in STEP_COLUMNS if name in columns), None)
    if ordered is not None:
        _found(columns, ordered, (), "step")
    seen = _state_columns(columns, states, {owner, ordered, *acted})
    order, lengths, labels = _rows(table, owner, ordered)
    done, count, names = actions_of([read_column(table, name) for name in acted])
    stored, entries = state_entries([read_column(table, name) for name in seen])
    data = Trajectories.from_flat(stored[order], done[order], lengths, count if num_actions is None else num_actions)
    return data.with_names(entries, names, labels)


def _state_columns(columns: Sequence[str], given: Sequence[str] | None, used: set[str | None]) -> list[str]:
    if given is not None:
        named = [given] if isinstance(given, str) else list(given)
        return [_found(columns, name, (), "states") for name in named]
    seen = [name for name in columns if name not in used and name not in LEFT_OUT]
    fix = "Name them with states=…"
    check(bool(seen), f"columns of the state beside {', '.join(sorted(filter(None, used)))}", ", ".join(columns), fix)
    return seen


def _rows(table: Any, owner: str, step: str | None) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The order of the rows, episode after episode, the length of each, and its label."""
    keys = table[owner].to_list()
    number: dict[Any, int] = {}
    episode = np.array([number.setdefault(key, len(number)) for key in keys])
    time = np.arange(len(episode)) if step is None else read_column(table, step).values
    return np.lexsort((time, episode)), np.bincount(episode), [str(key) for key in number]


def _read(path: str | os.PathLike, reader: Any, settings: dict[str, Any]) -> Trajectories:
    """Reads a file with a function of PyArrow; errors name the file."""
    pyarrow, name = require("pyarrow", "tables"), os.fspath(path)
    with open(path, "rb"):  # a missing file stays an OSError
        pass
    try:
        return from_dataframe(reader(name), **settings)
    except (pyarrow.ArrowException, ValueError, OSError) as error:
        raise FileError(f"{name}: {error}") from error


def from_csv(path: str | os.PathLike, **columns: Any) -> Trajectories:
    """From a CSV file with a header and a row for each step.

    :param columns: arguments of :func:`from_dataframe`, which says how columns are found
    """
    return _read(path, require("pyarrow.csv", "tables").read_csv, columns)


def from_parquet(path: str | os.PathLike, **columns: Any) -> Trajectories:
    """From a Parquet file with a row for each step.

    :param columns: arguments of :func:`from_dataframe`, which says how columns are found
    """
    return _read(path, require("pyarrow.parquet", "tables").read_table, columns)
