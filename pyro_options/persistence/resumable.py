"""The one loop that saves, stops and resumes."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any, ClassVar

from torch import Tensor

from .checkpoint import Checkpoint, Saver
from .interrupt import Pause, postponing_interrupts
from .storage import Format


class ResumableLoop(ABC):
    """Work in steps that can be stopped between any two of them and resumed to the same numbers.

    A subclass says what its state is (:meth:`capture`, :meth:`restore`) and does its work in :meth:`steps`, a generator
    that yields wherever that state is whole. :meth:`drive` runs it. With a checkpoint it saves when it is time and at
    the end; Ctrl-C saves before it raises :class:`~pyro_options.errors.Interrupted`.
    """

    FORMAT: ClassVar[Format]  # of its checkpoint files
    LOST_WORKERS: ClassVar[tuple[type[Exception], ...]] = ()  # what Ctrl-C may do to a step that uses other processes

    num_steps: int
    saver: Saver | None = None

    @abstractmethod
    def steps(self) -> Iterator[None]:
        """Does the work, and yields between any two steps."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether nothing is left to do."""

    @property
    @abstractmethod
    def progress_message(self) -> str:
        """How far it is, for messages."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What must be the same when it is resumed, by section."""

    @abstractmethod
    def capture(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The whole state, as plain numbers and copies of tensors."""

    @abstractmethod
    def restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """The inverse of :meth:`capture`."""

    def check_state(self) -> None:  # noqa: B027  # optional
        """Raises if the state is not worth saving."""

    def save_to(self, checkpoint: Checkpoint | None) -> None:
        """Saves to this checkpoint from now on, after restoring from it if it says so. A constructor's last call."""
        self.saver = None if checkpoint is None else Saver(self, checkpoint)

    def drive(self) -> None:
        """Runs the steps to their end, saving in between."""
        with postponing_interrupts() if self.saver is not None else nullcontext(Pause()) as pause:
            steps = self.steps()
            try:
                while self._step(steps, pause):
                    self._save(pause)
            finally:
                steps.close()  # type: ignore[attr-defined]  # a generator
            self._save(pause, at_once=True)

    def _step(self, steps: Iterator[None], pause: Pause) -> bool:
        """Whether there was a step left to take."""
        try:
            return next(steps, self) is not self
        except self.LOST_WORKERS as error:
            if not pause.requested or self.saver is None:
                raise
            # Ctrl-C reached the processes that this step worked with: the step is lost, those before it are saved.
            raise self.saver.interrupted() from error

    def _save(self, pause: Pause, at_once: bool = False) -> None:
        """Saves a sound state if it is time, and stops if somebody asked for it."""
        if self.saver is not None and (at_once or pause.requested or self.saver.due):
            self.check_state()
            self.saver.save()
            if pause.requested:
                raise self.saver.interrupted()
