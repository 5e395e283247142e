"""Columns of a data frame as arrays of numbers: categories become indices or one-hot entries, lists several entries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyro_options.errors import InputError, check

from .validation import exact_floats

_MOST = 1000  # categories of a column; more are probably identifiers


@dataclass(frozen=True)
class Column:
    """A column of a data frame: numbers ``(rows,)`` or ``(rows, width)``, or indices of categories ``(rows,)``."""

    name: str
    values: np.ndarray
    categories: tuple[str, ...] | None = None

    @property
    def entry_names(self) -> list[str]:
        """A name for each entry of :meth:`entries`."""
        if self.categories is not None:
            return [f"{self.name}={value}" for value in self.categories]
        return [self.name] if self.values.ndim == 1 else [f"{self.name}[{i}]" for i in range(self.values.shape[1])]

    def entries(self) -> np.ndarray:
        """As entries of a state, ``(rows, width)``: categories one-hot, numbers as floating point."""
        if self.categories is not None:
            return np.eye(len(self.categories), dtype=np.float32)[self.values]
        values = self.values[:, None] if self.values.ndim == 1 else self.values
        return exact_floats(values, 0, f"Scale the column {self.name!r} first.")


def episode_labels(names: Sequence[str] | None, count: int) -> np.ndarray:
    """The labels of episodes for a column ``(count,)``: whole numbers if all are, their positions if there are none."""
    if names is None:
        return np.arange(count)
    numbers = all(name.removeprefix("-").isdecimal() and str(int(name)) == name for name in names)
    return np.array([int(name) for name in names] if numbers else names)


def _categories(series: Any, values: np.ndarray) -> tuple[str, ...]:
    """The categories that a column declares, in its order, else the values that occur, sorted."""
    native = series.to_native()
    if hasattr(series.dtype, "categories"):
        return tuple(map(str, series.dtype.categories))
    if hasattr(native, "cat") and hasattr(native.cat, "categories"):
        return tuple(map(str, native.cat.categories))
    return tuple(sorted(set(values.tolist())))


def read_column(frame: Any, name: str) -> Column:
    """A column of a narwhals data frame; raises if a value is missing or not usable."""
    series = frame[name]
    kind, missing = series.dtype, series.is_null().to_numpy()
    if missing.any():
        row = int(missing.nonzero()[0][0])
        fix = "Fill or drop such rows, or leave the column out."
        check(False, f"a value in every row of the column {name!r}", f"none in row {row}", fix)
    if kind.is_numeric():
        return Column(name, series.to_numpy())
    text = str(kind).partition("(")[0]
    if text == "Boolean":
        return Column(name, series.to_numpy().astype(np.uint8))
    if text in ("List", "Array"):
        return Column(name, _vectors(series, name))
    fix = "Convert it to numbers, text or categories, or leave it out."
    known = text in ("String", "Categorical", "Enum", "Object")
    check(known, f"numbers or categories in the column {name!r}", kind, fix)
    values = np.array([str(value) for value in series.to_list()])
    categories = _categories(series, values)
    fix = "Leave it out, or convert it to numbers."
    check(len(categories) <= _MOST, f"at most {_MOST} categories in the column {name!r}", len(categories), fix)
    index = {category: i for i, category in enumerate(categories)}
    return Column(name, np.array([index[value] for value in values.tolist()], dtype=np.int64), categories)


def _vectors(series: Any, name: str) -> np.ndarray:
    """A column of lists of the same length, ``(rows, width)``."""
    try:
        return np.stack([np.asarray(value) for value in series.to_list()])
    except ValueError as error:
        raise InputError(
            f"Expected lists of one length in the column {name!r} but got others: {error}. Leave the column out."
        ) from error


def state_entries(columns: Sequence[Column]) -> tuple[np.ndarray, list[str]]:
    """All columns side by side, ``(rows, D)``, and the name of each entry."""
    parts = [column.entries() for column in columns]
    return np.concatenate(parts, -1), [name for column in columns for name in column.entry_names]


def actions_of(columns: Sequence[Column]) -> tuple[np.ndarray, Any, list[str] | None]:
    """Actions ``(rows,)`` or ``(rows, A)``, how many there are if categories say so, and names.

    Names are those of discrete actions if there is one column of categories, else those of the dimensions.
    """
    if len(columns) == 1 and columns[0].values.ndim == 1 and columns[0].values.dtype.kind in "iub":
        column = columns[0]
        count = None if column.categories is None else len(column.categories)
        return column.values.astype(np.int64), count, None if count is None else list(column.categories or ())
    values = [column.values[:, None] if column.values.ndim == 1 else column.values for column in columns]
    names = [name for column, part in zip(columns, values) for name in _dimension_names(column.name, part)]
    if all(part.dtype.kind in "iub" for part in values):
        counts: list[int] = []
        for column, part in zip(columns, values):
            counts += (part.max(0) + 1).tolist() if column.categories is None else [len(column.categories)]
        return np.concatenate(values, -1).astype(np.int64), tuple(counts), names
    kind = np.result_type(*(part.dtype for part in values if part.dtype.kind == "f"))
    return np.concatenate([part.astype(kind) for part in values], -1), None, names


def _dimension_names(name: str, part: np.ndarray) -> list[str]:
    return [name] if part.shape[1] == 1 else [f"{name}[{i}]" for i in range(part.shape[1])]
