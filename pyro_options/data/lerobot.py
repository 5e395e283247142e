"""Demonstrations from LeRobot data sets on disk, versions 2 and 3: Parquet files and ``meta/info.json``."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pyro_options.errors import FileError, InputError, check, require

from .trajectories import Trajectories


def lerobot_info(root: str | os.PathLike) -> dict[str, Any]:
    """``meta/info.json`` of a LeRobot data set; raises if there is none, or if its version is unknown."""
    path = Path(root) / "meta" / "info.json"
    fix = "Pass the folder that has meta/ and data/ in it."
    check(path.is_file(), "a LeRobot data set, with meta/info.json,", os.fspath(root), fix, FileError)
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileError(f"{path}: Expected JSON but got other text: {error}") from error
    version = str(info.get("codebase_version", "none"))
    known = version.startswith(("v2", "v3"))
    check(known, "codebase_version v2 or v3", version, "Convert it with LeRobot first.", FileError)
    return info


def lerobot_files(root: str | os.PathLike) -> list[Path]:
    """The Parquet files of the frames, in order."""
    files = sorted((Path(root) / "data").glob("*/*.parquet"))
    check(bool(files), "Parquet files data/*/*.parquet", f"none in {os.fspath(root)}", "", FileError)
    return files


def feature_names(info: dict[str, Any], feature: str, width: int) -> list[str]:
    """Names of the entries of a feature: those of ``info.json``, which may be nested in a dict, or numbers."""
    names = (info.get("features", {}).get(feature) or {}).get("names")
    if isinstance(names, dict):
        names = [name for part in names.values() for name in (part if isinstance(part, list) else [part])]
    if isinstance(names, list) and len(names) == width:
        return [str(name) for name in names]
    return [feature] if width == 1 else [f"{feature}[{i}]" for i in range(width)]


def _lengths(root: Path) -> dict[int, int]:
    """The length of each episode that ``meta`` lists; empty if it has no such list."""
    lines, tables = root / "meta" / "episodes.jsonl", sorted((root / "meta" / "episodes").glob("*/*.parquet"))
    if lines.is_file():
        rows = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines() if line.strip()]
        return {int(row["episode_index"]): int(row["length"]) for row in rows}
    parquet = require("pyarrow.parquet", "tables")
    found = [parquet.read_table(file, columns=["episode_index", "length"]).to_pydict() for file in tables]
    return {i: n for table in found for i, n in zip(table["episode_index"], table["length"])}


def _matrix(column: Any) -> np.ndarray:
    """A column of numbers or of lists of one length, ``(rows, width)``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = column.combine_chunks()
    if not any(kind(rows.type) for kind in (pa.types.is_list, pa.types.is_fixed_size_list, pa.types.is_large_list)):
        return rows.to_numpy(zero_copy_only=False)[:, None]
    lengths = pc.unique(pc.list_value_length(rows)).to_pylist()
    check(len(lengths) == 1 and lengths[0] is not None, "lists of one length", f"lengths {lengths}")
    return rows.flatten().to_numpy(zero_copy_only=False).reshape(len(rows), -1)


def from_lerobot(
    root: str | os.PathLike,
    states: str | Sequence[str] = "observation.state",
    actions: str | Sequence[str] = "action",
    episodes: Iterable[int] | None = None,
    num_actions: int | Sequence[int] | None = None,
) -> Trajectories:
    """From a LeRobot data set on disk, version 2 (a file for each episode) or 3 (files of many episodes).

    Images and videos are not read. Names of motors in ``meta/info.json`` become names of states and actions.

    :param root: the folder with ``meta`` and ``data`` in it
    :param states: one or more features that make up the state, put side by side
    :param actions: one or more features that make up the action
    :param episodes: indices of the episodes to read, by default all
    :param num_actions: see :class:`~pyro_options.data.Trajectories`; only with integer actions
    """
    parquet, info = require("pyarrow.parquet", "tables"), lerobot_info(root)
    seen, acted = ([given] if isinstance(given, str) else list(given) for given in (states, actions))
    known = list(info.get("features", {}))
    for name in (*seen, *acted):
        check(name in known, f"a feature among {', '.join(known)}", repr(name), "Name features with states=, actions=.")
    try:
        columns = ["episode_index", "frame_index", *seen, *acted]
        tables = [parquet.read_table(file, columns=columns) for file in lerobot_files(root)]
        return _trajectories(tables, info, Path(root), seen, acted, episodes, num_actions)
    except (InputError, OSError, KeyError, require("pyarrow", "tables").ArrowException) as error:
        raise FileError(f"{os.fspath(root)}: {error}") from error


def _trajectories(
    tables: Sequence[Any],
    info: dict[str, Any],
    root: Path,
    seen: Sequence[str],
    acted: Sequence[str],
    episodes: Iterable[int] | None,
    num_actions: Any,
) -> Trajectories:
    columns = {name: np.concatenate([_matrix(table[name]) for table in tables]) for name in tables[0].column_names}
    episode, frame = columns["episode_index"][:, 0], columns["frame_index"][:, 0]
    order = np.lexsort((frame, episode))
    if episodes is not None:
        wanted = sorted(set(map(int, episodes)))
        missing = sorted(set(wanted) - set(episode.tolist()))
        check(not missing, f"episodes among those of the data set, {len(np.unique(episode))},", missing)
        order = order[np.isin(episode[order], wanted)]
    numbers, lengths = np.unique(episode[order], return_counts=True)
    within = np.arange(len(order)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    check(np.array_equal(frame[order], within), "frames numbered from 0 in every episode", "others")
    listed = _lengths(root)
    for number, length in zip(numbers.tolist(), lengths.tolist()):
        whole = listed.get(number, length)
        check(length == whole, f"{whole} frames of episode {number}, as meta has it,", length, "Download it again.")
    parts = []
    for names in (seen, acted):
        values = [columns[name] for name in names]
        entries = [entry for name, part in zip(names, values) for entry in feature_names(info, name, part.shape[1])]
        parts.append((np.concatenate(values, -1)[order], entries))
    (stored, state_names), (done, action_names) = parts
    if done.dtype.kind in "iu" and done.shape[1] == 1:  # names are of the dimension, not of the actions
        data = Trajectories.from_flat(stored, done[:, 0], lengths, num_actions)
        return data.with_names(state_names)
    return Trajectories.from_flat(stored, done, lengths, num_actions).with_names(state_names, action_names)
