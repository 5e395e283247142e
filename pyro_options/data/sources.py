"""One call for every kind of file: the reader is chosen by what is there."""

import os
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

from pyro_options.errors import FileError, check

from .archive import array_names
from .dataframes import from_csv, from_dataframe, from_parquet
from .folder import INDEX
from .lerobot import from_lerobot
from .minari import from_minari
from .npz import from_npz
from .robomimic import from_robomimic
from .trajectories import Trajectories

#: reader by the ending of a file
READERS: dict[str, Callable[..., Trajectories]] = {
    ".csv": from_csv,
    ".parquet": from_parquet,
    ".pq": from_parquet,
    ".h5": from_robomimic,
    ".hdf5": from_robomimic,
}


def reader_of(source: str) -> Callable[..., Trajectories]:
    """The function that reads a file, a folder or a Minari id."""
    path = Path(source)
    if path.is_dir():
        if (path / INDEX).is_file():
            return Trajectories.load
        whole = (path / "meta" / "info.json").is_file()
        expected = f"a folder with {INDEX}, of Trajectories.save, or with meta/info.json, of LeRobot,"
        check(whole, expected, repr(source), "Pass a file in it.", FileError)
        return from_lerobot
    if path.suffix == ".npz":
        return Trajectories.load if path.is_file() and "format" in array_names(path) else from_npz
    if path.suffix in READERS:
        return READERS[path.suffix]
    fix = f"Known files: {', '.join(['.npz', *READERS])}, LeRobot folders; otherwise a Minari id such as a/b-v0."
    check(not path.exists() and "-v" in path.name, "a known kind of file or a Minari id", repr(source), fix, FileError)
    return from_minari


def open_trajectories(source: str | os.PathLike, **settings: Any) -> Trajectories:
    """Reads demonstrations of any known kind.

    =====================================  ==================================================
    ``demos.npz``                          ``Trajectories.load``, or :func:`from_npz`
    ``demos.csv``, ``demos.parquet``       :func:`from_csv`, :func:`from_parquet`
    ``demos.hdf5``                         :func:`from_robomimic`
    a folder of ``Trajectories.save``      ``Trajectories.load``, mapped into memory
    a folder with ``meta/info.json``       :func:`from_lerobot`
    a Minari id, such as ``a/b-v0``        :func:`from_minari`
    =====================================  ==================================================

    :param settings: arguments of that function
    """
    reader = reader_of(os.fspath(source))
    target = from_dataframe if reader in (from_csv, from_parquet) else reader
    known = [name for name in signature(target).parameters if name not in ("path", "root", "frame", "dataset", "cls")]
    for name in settings:
        check(name in known, f"settings of {os.fspath(source)!r} among {', '.join(known)}", repr(name))
    return reader(source, **settings)
