"""Segments as the subtasks of a LeRobot data set: ``subtask_index`` of every frame, and ``meta/subtasks.parquet``."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pyro_options.data.lerobot import lerobot_files, lerobot_info
from pyro_options.errors import FileError, check, require

from .segmentation import Segmentation

COLUMN = "subtask_index"
_FEATURE = {"dtype": "int64", "shape": [1], "names": None}


def write_lerobot_subtasks(
    root: str | os.PathLike, out: str | os.PathLike, segmentation: Segmentation, names: Sequence[str] | None = None
) -> None:
    """Writes a copy of a LeRobot data set in which the option of a frame is its subtask.

    Every frame gets ``subtask_index``, and ``meta/subtasks.parquet`` (in version 2, ``meta/subtasks.jsonl``) their
    names, as LeRobot has them. Videos and images are linked instead of copied where the file system allows it.

    :param root: the data set that was segmented, all of its episodes
    :param out: the folder of the copy, which must not exist
    :param segmentation: ``skills.segment(from_lerobot(root))``
    :param names: of options, by default ``option 0`` and so on; ``skills.names``
    """
    info, source, target = lerobot_info(root), Path(root), Path(out)
    count = segmentation.num_options
    names = [f"option {k}" for k in range(count)] if names is None else list(names)
    check(len(set(names)) == len(names) == count, f"a different name for each of {count} options", names)
    check(not target.exists(), "a folder that does not exist yet", os.fspath(out), "Name another.", FileError)
    labels = _labels(source, segmentation)
    for path in sorted(source.rglob("*")):
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif path.parent.parent.name == "data" and path.suffix == ".parquet":
            _write_frames(path, place, labels)
        else:
            _link(path, place, copy="meta" in path.relative_to(source).parts)
    info["features"] = {**info["features"], COLUMN: _FEATURE}
    (target / "meta" / "info.json").write_text(json.dumps(info, indent=4, ensure_ascii=False), encoding="utf-8")
    _write_names(target / "meta", names, info["codebase_version"].startswith("v2"))


def _labels(root: Path, segmentation: Segmentation) -> dict[int, np.ndarray]:
    """The option of each frame, by episode; raises unless lengths agree."""
    parquet = require("pyarrow.parquet", "tables")
    parts = [parquet.read_table(file, columns=["episode_index"])["episode_index"] for file in lerobot_files(root)]
    numbers, lengths = np.unique(np.concatenate([part.to_numpy() for part in parts]), return_counts=True)
    same = lengths.tolist() == segmentation.lengths.tolist()
    fix = "Segment all episodes of this data set."
    check(same, f"a segmentation of its {len(lengths)} episodes", f"another of {len(segmentation)}", fix, FileError)
    return {number: segmentation.episode(i)[0].numpy() for i, number in enumerate(numbers.tolist())}


def _write_frames(path: Path, place: Path, labels: dict[int, np.ndarray]) -> None:
    """A file of frames with ``subtask_index``, which the schema of Hugging Face datasets in it lists, too."""
    parquet, pyarrow = require("pyarrow.parquet", "tables"), require("pyarrow", "tables")
    table = parquet.read_table(path)
    episode, frame = (table[name].to_numpy() for name in ("episode_index", "frame_index"))
    values = np.array([labels[e][f] for e, f in zip(episode.tolist(), frame.tolist())], dtype=np.int64)
    if COLUMN in table.column_names:
        table = table.drop_columns([COLUMN])
    metadata = dict(table.schema.metadata or {})
    table = table.append_column(pyarrow.field(COLUMN, pyarrow.int64()), pyarrow.array(values))
    if b"huggingface" in metadata:
        metadata[b"huggingface"] = _told(metadata[b"huggingface"])
    parquet.write_table(table.replace_schema_metadata(metadata or None), place)


def _told(text: bytes) -> bytes:
    """The schema of Hugging Face datasets with the new column."""
    described: Any = json.loads(text)
    described.setdefault("info", {}).setdefault("features", {})[COLUMN] = {"dtype": "int64", "_type": "Value"}
    return json.dumps(described).encode()


def _write_names(folder: Path, names: Sequence[str], lines: bool) -> None:
    """The table of subtasks: a row for each index, with the name as the index of the data frame."""
    if lines:
        rows = [json.dumps({COLUMN: k, "subtask": name}, ensure_ascii=False) for k, name in enumerate(names)]
        (folder / "subtasks.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
        return
    parquet, pyarrow = require("pyarrow.parquet", "tables"), require("pyarrow", "tables")
    columns = {COLUMN: pyarrow.array(range(len(names)), pyarrow.int64()), "subtask": pyarrow.array(list(names))}
    described = {
        "index_columns": ["subtask"],
        "column_indexes": [
            {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object", "metadata": None}
        ],
        "columns": [
            {"name": COLUMN, "field_name": COLUMN, "pandas_type": "int64", "numpy_type": "int64", "metadata": None},
            {
                "name": "subtask",
                "field_name": "subtask",
                "pandas_type": "unicode",
                "numpy_type": "object",
                "metadata": None,
            },
        ],
        "pandas_version": "2.0.0",
    }
    table = pyarrow.table(columns).replace_schema_metadata({b"pandas": json.dumps(described).encode()})
    parquet.write_table(table, folder / "subtasks.parquet")


def _link(path: Path, place: Path, copy: bool) -> None:
    """A file of the copy: a hard link where possible, a copy of what will be written to."""
    if not copy:
        try:
            return os.link(path, place)
        except OSError:  # another file system
            pass
    shutil.copy2(path, place)
