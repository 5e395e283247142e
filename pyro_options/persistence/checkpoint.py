"""A resumable loop in a file: stop it anywhere, resume it to the same numbers.

A loop that was killed and resumed ends with the same bytes as one that was not.
"""

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from pyro_options.errors import FileError, Interrupted, check

from .storage import Format, checksum, previous_of, reading, sweep

logger = logging.getLogger(__name__)


class Stateful(Protocol):
    """What can be saved: it stops between steps, and the same state goes on to the same numbers."""

    FORMAT: Format  # of its checkpoint files
    num_steps: int  # taken so far

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""

    @property
    def progress_message(self) -> str:
        """How far it is, for messages."""

    def settings(self) -> dict[str, Any]:
        """What must be the same when it is resumed, by section, as plain numbers, texts, lists and dicts."""

    def capture(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The whole state, as plain numbers and copies of tensors."""

    def restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """The inverse of :meth:`capture`."""


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a loop is saved, always between two steps.

    :param path: the file; the one before it is kept beside it, as ``….previous``
    :param resume: resume from the file if there is one. Without it an unfinished run is not overwritten
    :param every_seconds: save when so many have passed since the last time
    :param every_steps: save after so many steps, too
    :param about: what else must be the same when it is resumed, in plain numbers and texts
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
        """Those of the loop that is to be resumed; ``None`` if there is none.

        :param form: of its checkpoint files
        """
        found = form.read_last_good(self.path) if self.resume else None
        return None if found is None else found[0]["settings"]


def plain(value: Any) -> Any:
    """Settings as JSON has them: a dataclass with its type, anything unknown by its name."""
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
    """A checksum of every number in a data set: a tensor, or a dataclass that holds tensors."""
    given = {"rows": data} if isinstance(data, Tensor) else {f.name: getattr(data, f.name) for f in fields(data)}
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    return checksum(str({name: value for name, value in given.items() if name not in tensors}), tensors)


class Saver:
    """Saves a loop when it is time, and restores it.

    :param loop: whose state it is
    """

    def __init__(self, loop: Stateful, checkpoint: Checkpoint):
        self.loop, self.checkpoint = loop, checkpoint
        self.settings = loop.settings() | {"about": plain(checkpoint.about)}
        self._step, self._time = loop.num_steps, time.monotonic()
        sweep(checkpoint.path)
        if checkpoint.resume:
            self.load()
        else:
            self._refuse_to_overwrite()

    def _refuse_to_overwrite(self) -> None:
        path = Path(self.checkpoint.path)
        if not path.exists():
            return
        config, _ = self.loop.FORMAT.read(path)  # nor is a file that is something else overwritten
        fix = f"Resume it, or delete {path}."
        check(config["finished"], "no unfinished run", f"one of {config['num_steps']} steps", fix)

    def load(self) -> bool:
        """Restores the last good checkpoint; ``False`` if there is none."""
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

        :param path: elsewhere than the usual place, where the one before is kept
        """
        state, tensors = self.loop.capture()
        place = self.checkpoint.path if path is None else path
        previous = previous_of(place) if path is None else None
        config = {"settings": self.settings, "state": state}
        config |= {"finished": self.loop.finished, "num_steps": self.loop.num_steps}
        self.loop.FORMAT.write(place, config, tensors, previous)
        if path is None:
            self._step, self._time = self.loop.num_steps, time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        steps = self.checkpoint.every_steps
        if steps is not None and self.loop.num_steps - self._step >= steps:
            return True
        return time.monotonic() - self._time >= self.checkpoint.every_seconds

    def interrupted(self) -> Interrupted:
        """The exception that ends a loop that was saved, with how to resume it."""
        return Interrupted(
            f"Stopped: {self.loop.progress_message}. Everything is in {self.checkpoint.path}: do the same again with "
            "resume=True (--resume) to go on."
        )
