"""Atomic writes, and a file format that is validated on reading and cannot execute code.

A file holds tensors (safetensors) and a JSON header: format, version, settings, and a checksum of every name, shape and
byte.
"""

import glob
import hashlib
import json
import logging
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from pyro_options.errors import FileError, InputError, check

logger = logging.getLogger(__name__)

_MAX_HEADER = 2**27  # bytes of JSON; the history of a million epochs takes less
_BROKEN = (
    *(SafetensorError, KeyError, TypeError, AttributeError, RuntimeError, ValueError),
    *(IndexError, OverflowError, RecursionError, EOFError),
)


@contextmanager
def replacing(path: str | os.PathLike, previous: Path | None = None) -> Iterator[BinaryIO]:
    """Opens a temporary file that replaces ``path`` on success (atomically, and synced to disk); removed on failure.

    :param previous: move the existing file at ``path`` here first
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if previous is not None and path.exists():
            os.replace(path, previous)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: str | os.PathLike, value: Any, indent: int | None = None) -> None:
    """Writes JSON atomically."""
    with replacing(path) as file:
        file.write((json.dumps(value, indent=indent) + "\n").encode())


def _sync_folder(folder: Path) -> None:
    """Syncs a directory, so that a rename in it survives a power failure; not possible on every system."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def checksum(text: str, tensors: Mapping[str, Tensor | Iterable[Tensor]]) -> str:
    """SHA-256 of ``text`` and of every tensor's name, type, shape and bytes; safetensors itself has no checksum.

    :param tensors: a tensor that is too large to be held whole may be given in parts
    """
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        given = tensors[name]
        for part in [given] if isinstance(given, Tensor) else given:
            tensor = part.detach().cpu().contiguous()
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


@contextmanager
def reading(path: str | os.PathLike, writer: str) -> Iterator[None]:
    """Turns any error about the content of a file into a :class:`FileError` that names the file.

    :param writer: the function that writes such files, for the message
    """
    name = os.fspath(path)
    try:
        yield
    except FileError as error:
        raise error if str(error).startswith(f"{name}: ") else FileError(f"{name}: {error}") from error
    except InputError as error:
        raise FileError(f"{name}: {error}") from error
    except _BROKEN as error:
        text = f"Expected a file that {writer} wrote but got {type(error).__name__}: {error}. Write it again."
        raise FileError(f"{name}: {text}") from error


def check_writable(path: str | os.PathLike, num_bytes: int = 1) -> None:
    """Raises :class:`FileError` if no file of this size can be written at ``path``, by writing one beside it."""
    path = Path(path)
    probe, part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp"), bytes(min(num_bytes, 2**20))
    try:
        with open(probe, "xb") as file:
            for start in range(0, num_bytes, len(part)):
                file.write(part[: num_bytes - start])
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        fix = "Make space or the folder writable, or save to another place."
        raise FileError(
            f"Expected to be able to write {num_bytes:,} bytes to {path} but got: {error.strerror}. {fix}"
        ) from error
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


def sweep(path: str | os.PathLike) -> None:
    """Removes temporary files that killed writers of ``path`` left behind. No other process may be writing it."""
    path = Path(path)
    for litter in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        litter.unlink(missing_ok=True)


def previous_of(path: str | os.PathLike) -> Path:
    """Path of the previous version of a file."""
    path = Path(path)
    return path.with_name(f"{path.name}.previous")


def _serialized(tensors: dict[str, Tensor], metadata: dict[str, str]) -> tuple[bytes, memoryview]:
    """Header and data of a safetensors file, deterministic: safetensors itself writes its metadata in random order."""
    content = safetensors.torch.save(tensors, metadata)
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start]) | {"__metadata__": metadata}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # keeps the data aligned
    return len(text).to_bytes(8, "little") + text, memoryview(content)[start:]


@dataclass(frozen=True)
class Format:
    """A file format: tensors, and settings as JSON.

    :param name: identifies the format in the file's header
    :param version: the version that is written; others are rejected on reading
    :param writer: the function that writes such files, for messages
    """

    name: str
    version: int
    writer: str

    def write(
        self,
        path: str | os.PathLike,
        config: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        previous: Path | None = None,
    ) -> None:
        """Writes settings and tensors to ``path``, atomically.

        :param config: JSON values
        :param previous: move the existing file at ``path`` here first
        """
        text = json.dumps(config)
        own = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
        header = {"format": self.name, "version": str(self.version), "config": text, "checksum": checksum(text, own)}
        start, numbers = _serialized(own, header)
        with replacing(path, previous) as file:
            file.write(start)
            file.write(numbers)

    def read(self, path: str | os.PathLike, max_bytes: int = 2**34) -> tuple[Any, dict[str, Tensor]]:
        """Settings and tensors of a file that :meth:`write` wrote; raises :class:`FileError` for anything else.

        :param max_bytes: raise if the file is larger; this also bounds the memory that its tensors take
        """
        with reading(path, self.writer):
            size = os.path.getsize(path)
            check(size <= max_bytes, f"at most {max_bytes} bytes", size, "Pass a larger max_bytes if that is right.")
            with open(path, "rb") as start:
                declared = int.from_bytes(start.read(8), "little")
            fix = f"Is it a file that {self.writer} wrote?"
            check(8 <= declared <= min(size, _MAX_HEADER), "a header that fits the file", f"{declared} bytes", fix)
            with safe_open(os.fspath(path), framework="pt") as file:
                header = file.metadata() or {}
                form, version = header.get("format"), header.get("version")
                check(form == self.name, f"the format {self.name!r}", repr(form))
                check(version == str(self.version), f"version {self.version} of it", repr(version))
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            text = header.get("config", "")
            intact = header.get("checksum") == checksum(text, tensors)
            check(intact, "the numbers that were written", "others", "The file is damaged: copy or write it again.")
            return json.loads(text), tensors

    def read_last_good(self, path: str | os.PathLike) -> tuple[Any, dict[str, Tensor]] | None:
        """Reads ``path``, or its previous version if it is damaged or missing; ``None`` if neither exists."""
        refused: list[FileError] = []
        for place in (Path(path), previous_of(path)):
            if not place.exists():
                continue
            try:
                content = self.read(place)
            except FileError as error:
                logger.warning("%s Trying the previous version.", error)
                refused.append(error)
                continue
            if place != Path(path):
                logger.warning("resuming from %s", place)
            return content
        if refused:
            raise FileError(" ".join(str(error) for error in refused)) from refused[0]
        return None
