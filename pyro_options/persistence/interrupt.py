"""Delays Ctrl-C to the end of a step."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyro_options.errors import Interrupted


class Pause:
    """Signal handler that records a Ctrl-C; a second one raises ``KeyboardInterrupt``."""

    requested = False

    def __call__(self, number: int, frame) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def postponing_interrupts() -> Iterator[Pause]:
    """Ctrl-C inside only sets ``requested``, so that a loop can stop at a consistent state; a second one raises.

    Python handles signals in the main thread only: in other threads ``requested`` stays ``False``.
    """
    pause = Pause()
    if threading.current_thread() is not threading.main_thread():
        yield pause
        return
    before = signal.signal(signal.SIGINT, pause)
    try:
        yield pause
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def explained_interrupts() -> Iterator[None]:
    """For scripts: prints the message of :class:`~pyro_options.errors.Interrupted` instead of a traceback and exits."""
    try:
        yield
    except Interrupted as pause:
        print(f"\n{pause}", file=sys.stderr)
        raise SystemExit(130) from None
