"""Safe reading and atomic writing of npz files: no pickle, and sizes are checked before any data are read."""

import lzma
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from pyro_options.errors import FileError, check
from pyro_options.persistence.storage import replacing

_MAX_HEADER = 10_000  # bytes of an array's header; numpy has the same limit, but checks it after reading the header
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError, EOFError, OSError),
    *(RuntimeError, ValueError, ArithmeticError, LookupError, TypeError, SyntaxError, MemoryError),
)


@dataclass(frozen=True)
class Declared:
    """Shape and type of an array, from its header."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """Bytes that the array takes."""
        return math.prod(self.shape) * self.dtype.itemsize


def naming(path: str | os.PathLike, error: Exception) -> FileError:
    """The same error as a :class:`FileError` that names the file, with advice if the file itself is damaged."""
    name, text = os.fspath(path), str(error)
    if text.startswith(f"{name}: "):
        return FileError(text)
    fix = "" if text.startswith("Expected") else " The file is not an npz file or is damaged: write it again."
    return FileError(f"{name}: {text}{fix}")


def write_archive(path: str | os.PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes a compressed npz file, atomically."""
    with replacing(path) as file:
        np.savez_compressed(file, **dict(arrays), allow_pickle=False)


def read_archive(
    path: str | os.PathLike, names: Sequence[str], max_bytes: int = 2**34, fixes: Mapping[str, str] | None = None
) -> dict[str, np.ndarray]:
    """Reads named arrays of an npz file.

    :param names: arrays to read; each must exist
    :param max_bytes: raise if the arrays' headers declare more than this (16 GiB by default), or than this machine's
        memory
    :param fixes: advice for the error message if an array is missing, by its name
    """
    with open(path, "rb") as file:  # outside of try: a missing file stays an OSError
        try:
            with zipfile.ZipFile(file) as archive:
                present = _names(archive)
                missing = [name for name in names if name not in present]
                if missing:
                    fix, there = (fixes or {}).get(missing[0], ""), ", ".join(sorted(present)) or "none"
                    check(False, f"an array called {missing[0]!r}", there, fix)
                total, limit = sum(_declared(archive, name).nbytes for name in names), min(max_bytes, _memory())
                fix = "Pass a larger max_bytes if that is right, on a machine that has them."
                check(total <= limit, f"at most {limit} bytes", total, fix)
                return {name: _read(archive, name) for name in names}
        except _BROKEN as error:
            raise naming(path, error) from error


def array_names(path: str | os.PathLike) -> set[str]:
    """The names of the arrays of an npz file."""
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _names(archive)
        except _BROKEN as error:
            raise naming(path, error) from error


def _names(archive: zipfile.ZipFile) -> set[str]:
    return {Path(name).stem for name in archive.namelist() if name.endswith(".npy")}


def _memory() -> int:
    """Bytes of physical memory; practically unlimited where the system does not report it."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 2**62


def _declared(archive: zipfile.ZipFile, name: str) -> Declared:
    """The header of an array, checked against the size of its member in the archive."""
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as file:
        start = file.read(12)
        length = struct.unpack("<H", start[8:10]) if start[6:7] == b"\1" else struct.unpack("<I", start[8:12])
        check(length[0] <= _MAX_HEADER, f"a header of {name!r} of at most {_MAX_HEADER} bytes", length[0])
    with archive.open(info) as file:
        version = npy.read_magic(file)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read_header(file)
        offset = file.tell()
    check(dtype.kind in "biufU", f"numbers in {name!r}", dtype, "Objects would need pickle, which can run code.")
    declared = Declared(shape, dtype)
    check(
        declared.nbytes == info.file_size - offset,
        f"{declared.nbytes} bytes in {name!r} as its header says",
        info.file_size - offset,
        "The file is damaged: write it again.",
    )
    return declared


def _read(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """An array, in native byte order."""
    with archive.open(f"{name}.npy") as file:
        array = npy.read_array(file, allow_pickle=False)
    return array.astype(array.dtype.newbyteorder("="), copy=False)
