"""Base class of every loop that saves checkpoints and resumes."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any, ClassVar

from torch import Tensor

from .checkpoint import Checkpoint, Saver
from .interrupt import Pause, postponing_interrupts
from .storage import Format


class ResumableLoop(ABC):
    """A loop that can be stopped between any two steps and resumed to the same result.

    A subclass defines its state (:meth:`capture`, :meth:`restore`) and its work, :meth:`steps`: a generator that yields
    wherever that state is consistent. :meth:`drive` runs it. With a checkpoint it saves at the checkpoint's intervals
    and at the end; Ctrl-C and SIGTERM save before it raises :class:`~pyro_options.errors.Interrupted`. A checkpoint
    that cannot be written, on a full disk for instance, is logged and does not stop the loop.
    """

    FORMAT: ClassVar[Format]  # of its checkpoint files
    LOST_WORKERS: ClassVar[tuple[type[Exception], ...]] = ()  # errors of a step whose worker processes got the Ctrl-C

    num_steps: int
    saver: Saver | None = None
    writes: bool = True  # whether this process writes the checkpoints

    @abstractmethod
    def steps(self) -> Iterator[None]:
        """Does the work; yields between any two steps."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the loop has completed."""

    @property
    @abstractmethod
    def progress_message(self) -> str:
        """Progress so far, for log and error messages."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Settings that must not differ when resuming, by section."""

    @abstractmethod
    def capture(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The whole state: JSON values, and copies of tensors."""

    @abstractmethod
    def restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """The inverse of :meth:`capture`."""

    def check_state(self) -> None:  # noqa: B027  # optional
        """Raises if the state is invalid and must not be saved. Does nothing by default."""

    def agree(self, *flags: bool) -> tuple[bool, ...]:
        """Flags that every process of the loop must see alike; as they are, in a loop of one process."""
        return flags

    def save_to(self, checkpoint: Checkpoint | None) -> None:
        """Saves to this checkpoint from now on; restores from it first if it has ``resume``.

        Call it last in the constructor.
        """
        self.saver = None if checkpoint is None else Saver(self, checkpoint, self.writes)

    def drive(self) -> None:
        """Runs all steps, saving in between and at the end."""
        with postponing_interrupts() if self.saver is not None else nullcontext(Pause()) as pause:
            steps = self.steps()
            try:
                while self._step(steps, pause):
                    self._save(pause)
            finally:
                steps.close()  # type: ignore[attr-defined]  # a generator
            self._save(pause, at_once=True)

    def _step(self, steps: Iterator[None], pause: Pause) -> bool:
        """Takes a step; ``False`` if there was none left."""
        try:
            return next(steps, self) is not self
        except self.LOST_WORKERS as error:
            if not pause.requested or self.saver is None:
                raise
            # Ctrl-C also killed the worker processes of this step: the step is lost, earlier ones are saved.
            raise pause.explained(self.saver.interrupted()) from error

    def _save(self, pause: Pause, at_once: bool = False) -> None:
        """Saves if a checkpoint is due; raises ``Interrupted`` if Ctrl-C was pressed."""
        saver = self.saver
        if saver is None:
            return
        stop, due = self.agree(pause.requested, saver.due)
        if not (at_once or stop or due):
            return
        self.check_state()
        if stop:
            raise pause.explained(saver.save_before_stop())
        if not saver.up_to_date:
            saver.save_if_possible()
