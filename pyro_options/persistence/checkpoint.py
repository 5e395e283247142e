"""Checkpoints of a resumable loop.

A run that was killed and resumed ends with the same parameters, bit for bit, as an uninterrupted one.
"""

import logging
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from torch import Tensor

from pyro_options.errors import FileError, Interrupted, check

from .storage import Format, check_writable, checksum, previous_of, reading, sweep

logger = logging.getLogger(__name__)


class Stateful(Protocol):
    """What :class:`Saver` needs of a loop: between two steps, the captured state determines the rest of the run."""

    FORMAT: ClassVar[Format]  # of its checkpoint files
    num_steps: int  # taken so far

    @property
    def finished(self) -> bool:
        """Whether the loop has completed."""

    @property
    def progress_message(self) -> str:
        """Progress so far, for log and error messages."""

    def settings(self) -> dict[str, Any]:
        """Settings that must not differ when resuming, by section, as JSON values."""

    def capture(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The whole state: JSON values, and copies of tensors."""

    def restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """The inverse of :meth:`capture`."""


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a loop is saved, always between two steps.

    :param path: checkpoint file; the previous checkpoint is kept beside it, as ``….previous``
    :param resume: resume from the file if it exists. Without it, an unfinished run at ``path`` is an error
    :param every_seconds: save when this many seconds have passed since the last checkpoint
    :param every_steps: also save after this many steps
    :param about: further settings that must not differ when resuming, as JSON values
    """

    path: str | os.PathLike
    resume: bool = False
    every_seconds: float = 60.0
    every_steps: int | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self.every_seconds >= 0, "every_seconds >= 0", self.every_seconds)
        check(self.every_steps is None or self.every_steps >= 1, "every_steps >= 1", self.every_steps)
        parent = Path(self.path).parent
        check(parent.is_dir(), "a folder to save checkpoints in", repr(str(parent)), "Make it first.")

    def settings(self, form: Format) -> dict[str, Any] | None:
        """The settings in the checkpoint to resume from; ``None`` if there is none.

        :param form: format of the checkpoint file
        """
        found = form.read_last_good(self.path) if self.resume else None
        return None if found is None else found[0]["settings"]


def plain(value: Any) -> Any:
    """Settings as JSON values: a dataclass becomes a dict with its type, an unknown object its qualified name."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__} | {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)


def fingerprint(data: Any) -> str:
    """Checksum of a data set: a tensor, or an object whose ``checksum_fields()`` are tensors, iterators over parts of
    them, and other values."""
    given = {"rows": data} if isinstance(data, Tensor) else data.checksum_fields()
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor | Iterator)}
    return checksum(str({name: value for name, value in given.items() if name not in tensors}), tensors)


class Saver:
    """Saves and restores the state of a loop.

    Constructing it restores the loop if ``checkpoint.resume`` is set, and otherwise raises if ``checkpoint.path`` holds
    an unfinished run. It also raises if the state of a loop that has not begun cannot be written there.

    :param writes: ``False`` in a process that runs the same loop as another one, which saves it
    """

    def __init__(self, loop: Stateful, checkpoint: Checkpoint, writes: bool = True):
        self.loop, self.checkpoint, self.writes = loop, checkpoint, writes
        self.settings = loop.settings() | {"about": plain(checkpoint.about)}
        done = loop.num_steps
        self._step, self._time = done, time.monotonic()
        self.saved_step: int | None = None  # number of steps in the newest checkpoint
        self.saved_finished = False  # whether it is that of a completed run
        if writes:
            sweep(checkpoint.path)
        if checkpoint.resume:
            self.load()
        else:
            self._refuse_to_overwrite()
        if writes and not loop.finished and not done:  # later, a full disk must not cost what was done
            tensors = loop.capture()[1].values()
            check_writable(checkpoint.path, sum(tensor.nbytes for tensor in tensors))

    def _refuse_to_overwrite(self) -> None:
        path = Path(self.checkpoint.path)
        if not path.exists():
            return
        config, _ = self.loop.FORMAT.read(path)  # raises for a file of another kind, which is not overwritten either
        fix = f"Resume it, or delete {path}."
        check(config["finished"], "no unfinished run", f"one of {config['num_steps']} steps", fix)

    def load(self) -> bool:
        """Restores the newest intact checkpoint; ``False`` if there is none."""
        path, form = self.checkpoint.path, self.loop.FORMAT
        found = form.read_last_good(path)
        if found is None:
            logger.info("no checkpoint at %s: starting from the beginning", path)
            return False
        config, tensors = found
        with reading(path, form.writer):
            self._compare(config["settings"])
            self.loop.restore(config["state"], tensors)
        self._step, self._time = self.loop.num_steps, time.monotonic()
        self.saved_step, self.saved_finished = self._step, self.loop.finished
        logger.info("resuming: %s", self.loop.progress_message)
        return True

    def _compare(self, saved: Mapping[str, Any]) -> None:
        fix = "Resume with the settings and data it was started with, or save to another file."
        for part, now in self.settings.items():
            then = saved[part]
            if isinstance(now, dict) and isinstance(then, dict):
                for name in now.keys() | then.keys():
                    same = now.get(name) == then.get(name)
                    check(same, f"{part} {name} = {then.get(name)!r}", repr(now.get(name)), fix, FileError)
            check(now == then, f"the same {part}", "other", fix, FileError)

    def save(self, path: str | os.PathLike | None = None) -> None:
        """Writes a checkpoint now.

        :param path: another file than that of the checkpoint; its previous version is then not kept
        """
        if not self.writes:
            return
        state, tensors = self.loop.capture()
        place = self.checkpoint.path if path is None else path
        previous = previous_of(place) if path is None else None
        config: dict[str, Any] = {"settings": self.settings, "state": state}
        config |= {"finished": self.loop.finished, "num_steps": self.loop.num_steps}
        self.loop.FORMAT.write(place, config, tensors, previous)
        if path is None:
            self._step, self._time = self.loop.num_steps, time.monotonic()
            self.saved_step, self.saved_finished = self._step, self.loop.finished

    @property
    def up_to_date(self) -> bool:
        """Whether the newest checkpoint holds the completed run."""
        return self.loop.finished and self.saved_finished and self.saved_step == self.loop.num_steps

    def save_if_possible(self) -> None:
        """Writes a checkpoint now; if that fails, logs what is not saved, and the loop goes on."""
        try:
            self.save()
        except OSError as error:
            self._step, self._time = self.loop.num_steps, time.monotonic()  # try again after the usual interval
            if self.loop.finished:
                rest = "The run is complete and its result is returned: save that elsewhere."
            else:
                rest = "The run goes on and tries again later; if it is stopped before, what is not saved is lost."
            logger.warning("%s %s", self._not_saved(error), rest)

    def _not_saved(self, error: OSError) -> str:
        held = "holds no checkpoint" if self.saved_step is None else f"holds the first {self.saved_step} steps alone"
        what = f"Not saved: {self.loop.progress_message}, but {self.checkpoint.path} {held}"
        return f"{what} ({error.strerror or error})."

    @property
    def due(self) -> bool:
        """Whether the next checkpoint is due."""
        if not self.writes:
            return False
        steps = self.checkpoint.every_steps
        if steps is not None and self.loop.num_steps - self._step >= steps:
            return True
        return time.monotonic() - self._time >= self.checkpoint.every_seconds

    def save_before_stop(self) -> Interrupted:
        """Writes a checkpoint, if that fails to the folder for temporary files; returns the exception to raise."""
        try:
            self.save()
        except OSError as error:
            text, path = self._not_saved(error), Path(self.checkpoint.path)
            try:
                rescued = Path(tempfile.mkdtemp(prefix="pyro_options-")) / path.name
                self.save(rescued)
            except OSError as second:
                return Interrupted(f"Stopped. {text} Nor could it be saved for now: {second.strerror or second}.")
            return Interrupted(
                f"Stopped. {text} Everything is in {rescued} instead: move it to {path} and do the same again with "
                "resume=True (--resume) to continue."
            )
        return self.interrupted()

    def interrupted(self) -> Interrupted:
        """The exception to raise after saving on Ctrl-C; its message says how to resume."""
        return Interrupted(
            f"Stopped: {self.loop.progress_message}. Everything is in {self.checkpoint.path}: do the same again with "
            "resume=True (--resume) to continue."
        )
