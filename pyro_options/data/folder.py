"""Demonstrations in a folder of arrays that can be mapped: read as batches need them, so they may exceed the memory.

A folder holds ``index.json``, ``lengths.npy``, and shards of whole episodes, ``states-00000.npy`` and
``actions-00000.npy``, flat ``(steps, …)``. The index has the format, everything that is no array, and the SHA-256 of
the values of every array.
"""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import torch
from numpy.lib import format as npy

from pyro_options.errors import FileError, InputError, check

from .ingestion import PARTS, episode_arrays
from .steps import FlatSteps, Steps
from .validation import as_tensor

if TYPE_CHECKING:
    from .trajectories import Trajectories

FORMAT = "pyro_options.Trajectories/folder/1"
INDEX = "index.json"

#: bytes of states in a shard, about
SHARD_BYTES = 2**28

_CHUNK = 2**22  # values to read at a time
_NAMES = ("state_names", "action_names", "episode_names")


class _ArrayFile:
    """A npy file that grows step by step."""

    def __init__(self, folder: Path, name: str, like: np.ndarray):
        self.name, self.dtype, self.shape = name, like.dtype, like.shape[1:]
        self.steps, self._digest = 0, hashlib.sha256()
        self._file: BinaryIO = open(folder / name, "xb")  # noqa: SIM115  # closed by close
        self._header()

    def _header(self) -> None:
        """Numpy leaves room for any number of steps, so that the header can be written again."""
        descr = npy.dtype_to_descr(self.dtype)
        header = {"descr": descr, "fortran_order": False, "shape": (self.steps, *self.shape)}
        npy.write_array_header_1_0(self._file, header)

    def append(self, values: np.ndarray) -> None:
        """Adds values ``(steps, …)``."""
        data = np.ascontiguousarray(values, self.dtype).data
        self._digest.update(data)
        self._file.write(data)
        self.steps += len(values)

    def close(self) -> dict[str, Any]:
        """Completes the file; its entry in the index."""
        if not self._file.closed:
            self._file.seek(0)
            self._header()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        return {"file": self.name, "steps": self.steps, "sha256": self._digest.hexdigest()}


class EpisodeWriter:
    """Writes episodes one after the other; :func:`writing_folder` makes one.

    :param folder: an empty folder
    :param shard_bytes: bytes of states in a shard, about
    """

    def __init__(self, folder: Path, shard_bytes: int = SHARD_BYTES):
        self.folder, self.shard_bytes = folder, shard_bytes
        self.lengths: list[int] = []
        self._shards: list[dict[str, Any]] = []
        self._open: dict[str, _ArrayFile] = {}

    def add(self, states: np.ndarray, actions: np.ndarray | None) -> None:
        """Adds an episode, ``(steps, …)`` each."""
        values = {name: part for name, part in zip(PARTS, (states, actions)) if part is not None}
        if not self._open:
            number = f"{len(self._shards):05d}.npy"
            self._open = {name: _ArrayFile(self.folder, f"{name}-{number}", part) for name, part in values.items()}
        for name, part in values.items():
            self._open[name].append(part)
        self.lengths.append(len(states))
        if self._open["states"].steps * states[:1].nbytes >= self.shard_bytes:
            self._close_shard()

    def _close_shard(self) -> None:
        if self._open:
            self._shards.append({name: file.close() for name, file in self._open.items()})
            self._open = {}

    def finish(self, about: dict[str, Any]) -> None:
        """Completes the last shard, and writes the index, with what else there is to know ``about`` the episodes."""
        self._close_shard()
        lengths = np.asarray(self.lengths)
        file = _ArrayFile(self.folder, "lengths.npy", lengths)
        file.append(lengths)
        index = {"format": FORMAT} | about | {"lengths": file.close(), "shards": self._shards}
        (self.folder / INDEX).write_text(json.dumps(index, indent=1) + "\n")

    def close(self) -> None:
        """Closes files, also after an error."""
        self._close_shard()


@contextmanager
def writing_folder(path: str | os.PathLike, shard_bytes: int = SHARD_BYTES) -> Iterator[EpisodeWriter]:
    """A writer whose folder appears at ``path`` once it is complete; nothing is left there after an error."""
    path = Path(path)
    check(not path.exists(), f"a new folder as {path}", "one that exists", "Delete it, or choose another.", FileError)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    temporary.mkdir()
    writer = EpisodeWriter(temporary, shard_bytes)
    try:
        yield writer
        os.rename(temporary, path)
    except BaseException:
        writer.close()
        shutil.rmtree(temporary)
        raise


def _about(packed: bool, num_actions: Any, bounds: Any, names: Iterable[Sequence[str] | None]) -> dict[str, Any]:
    given = {
        "packed": packed,
        "num_actions": list(num_actions) if isinstance(num_actions, tuple) else num_actions,
        "action_bounds": None if bounds is None else as_tensor(bounds, "action_bounds").tolist(),
    }
    return given | {name: None if value is None else list(value) for name, value in zip(_NAMES, names)}


def write_folder(path: str | os.PathLike, data: "Trajectories", shard_bytes: int = SHARD_BYTES) -> None:
    """Writes demonstrations, one episode in memory at a time; discrete actions in as few bytes as they need."""
    kind = None
    if data.action_steps is not None and data.discrete:
        counts = data.num_actions if isinstance(data.num_actions, tuple) else (data.num_actions or 1,)
        kind = np.min_scalar_type(max(counts) - 1)
    fix = "numpy has no such type: convert with .to(dtype=torch.float32)."
    for steps in (data.state_steps, data.action_steps):
        fits = steps is None or steps.dtype is not torch.bfloat16
        check(fits, "values of a type that numpy has", torch.bfloat16, fix)
    with writing_folder(path, shard_bytes) as writer:
        for number in range(len(data)):
            states = data.state_steps.episode(number).detach().cpu()
            states = states if data.state_shape is None else states.unflatten(1, data.state_shape)
            actions = None if data.action_steps is None else data.action_steps.episode(number).detach().cpu().numpy()
            writer.add(states.numpy(), actions if actions is None or kind is None else actions.astype(kind))
        names = (getattr(data, name) for name in _NAMES)
        writer.finish(_about(data.packed, data.num_actions, data.action_bounds, names))


def save_episodes(
    path: str | os.PathLike,
    episodes: Iterable[tuple],
    num_actions: int | tuple[int, ...] | None = None,
    packed: bool = False,
    action_bounds: Any = None,
) -> None:
    """Writes episodes as they come, such as from a generator, to a folder for ``Trajectories.load``.

    No more than one episode is in memory, so there may be any number of them.

    :param episodes: as in ``Trajectories.from_episodes``: ``(states (T_i, D), actions (T_i,) or (T_i, A))``
    :param num_actions: see :class:`Trajectories`
    :param packed: whether each byte of the states holds eight bits
    :param action_bounds: lower and upper bounds of continuous actions
    """
    first: list[tuple] = []
    with writing_folder(path) as writer:
        for number, episode in enumerate(episodes):
            ((states,), (actions,)), _ = episode_arrays([episode])
            kinds = [(tuple(part.shape[1:]), part.dtype) for part in (states, actions)]
            first = first or kinds
            check(kinds == first, f"states and actions of shapes and types {first}", f"{kinds} at episode {number}")
            writer.add(states.cpu().numpy(), actions.cpu().numpy())
        check(bool(writer.lengths), "at least one episode", "none")
        writer.finish(_about(packed, num_actions, action_bounds, [None] * len(_NAMES)))


def read_folder(path: str | os.PathLike, kind: type["Trajectories"], verify: bool = True) -> "Trajectories":
    """Maps the arrays of a folder.

    :param verify: compare the checksums, and check every value; reads everything once
    """
    folder = Path(path)
    try:
        index = json.loads((folder / INDEX).read_text())
        form = index.get("format") if isinstance(index, dict) else None
        check(form == FORMAT, f"the format {FORMAT!r}", repr(form))
        lengths = torch.from_numpy(_mapped(folder, index["lengths"], verify).astype(np.int64))
        shards = index["shards"]
        parts = [name for name in PARTS if name in shards[0]]
        arrays = {name: [_mapped(folder, shard[name], verify) for shard in shards] for name in parts}
        stores = {name: _store(arrays[name], lengths) for name in parts}
        counts = index["num_actions"]
        counts = tuple(counts) if isinstance(counts, list) else counts
        data = kind._of_steps(
            stores["states"], stores.get("actions"), counts, bool(index["packed"]), index["action_bounds"], verify
        )
        return data.with_names(*(index.get(name) for name in _NAMES))
    except FileNotFoundError as error:
        raise FileError(f"{folder}: Expected {Path(error.filename).name} in the folder but found none.") from error
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        fix = (
            ""
            if isinstance(error, InputError)
            else f" ({type(error).__name__}). The folder is damaged: write it again."
        )
        raise FileError(f"{folder}: {error}{fix}") from error


def _mapped(folder: Path, entry: dict[str, Any], verify: bool) -> np.ndarray:
    """An array of the folder, mapped and compared with its entry in the index."""
    name = entry["file"]
    check(isinstance(name, str) and Path(name).name == name, "the name of a file in the folder", repr(name))
    values = np.load(folder / name, mmap_mode="r", allow_pickle=False)
    fix = "The folder is damaged: write it again."
    check(values.dtype.kind in "biuf" and values.ndim >= 1, f"numbers in {name}", values.dtype, fix)
    check(len(values) == entry["steps"], f"{entry['steps']} steps in {name}", len(values), fix)
    if verify:
        digest, rows = hashlib.sha256(), max(1, _CHUNK // max(1, values[:1].nbytes))
        for first in range(0, len(values), rows):
            digest.update(np.ascontiguousarray(values[first : first + rows]).data)
        check(digest.hexdigest() == entry["sha256"], f"the values of {name} that were written", "others", fix)
    return values


def _store(arrays: list[np.ndarray], lengths: torch.Tensor) -> Steps:
    """The episodes in shards of whole ones; the arrays stay files."""
    steps = torch.tensor([len(one) for one in arrays])
    begin = lengths.cumsum(0) - lengths
    limits = steps.cumsum(0)
    shard = torch.searchsorted(limits, begin, right=True)
    fits = bool((lengths >= 1).all()) and int(lengths.sum()) == int(limits[-1]) and int(shard.max()) < len(arrays)
    start = begin - (limits - steps)[shard] if fits else begin
    fits = fits and bool((start + lengths <= steps[shard]).all())
    check(fits, "shards of whole episodes", "other lengths", "The folder is damaged: write it again.")
    kinds = {(one.shape[1:], one.dtype) for one in arrays}
    check(len(kinds) == 1, "shards of one shape and type", kinds)
    tensors = tuple(as_tensor(one, "values") for one in arrays)
    kind = int(lengths.max()), tensors[0].dtype, torch.device("cpu")
    return FlatSteps(tensors, shard, start, lengths, *kind, mapped=True)
