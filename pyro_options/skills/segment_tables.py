"""Segments as tables: a row for each segment, as a data frame or a CSV file."""

import csv
import io
import os
from collections.abc import Sequence
from typing import Any

from pyro_options.data.table_columns import episode_labels
from pyro_options.errors import check, choice, require
from pyro_options.persistence.storage import replacing

from .segmentation import Segmentation

#: libraries that a data frame can be made with
BACKENDS = ("pandas", "polars", "pyarrow")


def segment_columns(segmentation: Segmentation, names: Sequence[str] | None = None) -> dict[str, list]:
    """Columns of the table of segments: ``episode``, ``option``, ``start``, ``stop`` (not included), ``length``.

    Episodes have the labels of the demonstrations, :attr:`Trajectories.episode_names`, else their positions.

    :param names: of options, such as ``skills.names``, for one more column, ``name``
    """
    count = segmentation.num_options
    check(names is None or len(names) == count, f"a name for each of {count} options", names)
    labels = episode_labels(segmentation.episode_names, len(segmentation))
    episode, start = segmentation.segment_starts()
    option, length = segmentation.segment_lengths()
    columns = {
        "episode": labels[episode.numpy()].tolist(),
        "option": option.tolist(),
        "start": start.tolist(),
        "stop": (start + length).tolist(),
        "length": length.tolist(),
    }
    return columns if names is None else columns | {"name": [names[k] for k in columns["option"]]}


def segments_to_dataframe(
    segmentation: Segmentation, names: Sequence[str] | None = None, backend: str = "pandas"
) -> Any:
    """A data frame with a row for each segment, see :func:`segment_columns`.

    :param names: of options, such as ``skills.names``
    :param backend: ``pandas``, ``polars`` or ``pyarrow``, which must be installed
    """
    module = require(choice(backend, "backend", BACKENDS), "tables")
    columns = segment_columns(segmentation, names)
    return module.table(columns) if backend == "pyarrow" else module.DataFrame(columns)


def write_segments(path: str | os.PathLike, segmentation: Segmentation, names: Sequence[str] | None = None) -> None:
    """Writes a CSV file with a row for each segment, atomically; needs no other package."""
    columns, text = segment_columns(segmentation, names), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values()))
    with replacing(path) as file:
        file.write(text.getvalue().encode())
