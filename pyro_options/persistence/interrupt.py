"""Delays Ctrl-C and SIGTERM to the end of a step."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyro_options.errors import Interrupted


class Pause:
    """Signal handler that records a Ctrl-C or a SIGTERM; Ctrl-C after that raises ``KeyboardInterrupt``."""

    signal: int | None = None  # the first that came

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self.signal is not None

    def __call__(self, number: int, frame) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number if self.signal is None else self.signal

    def explained(self, error: Interrupted) -> Interrupted:
        """The exception, with the signal that it is raised for."""
        error.signal = self.signal or signal.SIGINT
        return error


@contextmanager
def postponing_interrupts() -> Iterator[Pause]:
    """Signals inside only set ``requested``, so that a loop can stop at a consistent state; a second Ctrl-C raises.

    Batch systems send SIGTERM before they end a job.

    Python handles signals in the main thread only: in other threads ``requested`` stays ``False``.
    """
    pause = Pause()
    if threading.current_thread() is not threading.main_thread():
        yield pause
        return
    before = {number: signal.signal(number, pause) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield pause
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextmanager
def explained_interrupts() -> Iterator[None]:
    """For scripts: prints the message of :class:`~pyro_options.errors.Interrupted` instead of a traceback and exits."""
    try:
        yield
    except Interrupted as pause:
        print(f"\n{pause}", file=sys.stderr)
        raise SystemExit(128 + pause.signal) from None
