"""Ctrl-C between two steps, never inside one."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyro_options.errors import Interrupted


class Pause:
    """Whether somebody pressed Ctrl-C."""

    requested = False

    def __call__(self, number: int, frame) -> None:
        if self.requested:  # twice means now
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def postponing_interrupts() -> Iterator[Pause]:
    """Ctrl-C inside sets ``requested``, so that work can stop where its state is whole; a second one stops at once.

    Outside of the main thread, which alone may listen to signals, nothing is ever requested.
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
    """For a command: ends with what :class:`~pyro_options.errors.Interrupted` says, instead of a traceback."""
    try:
        yield
    except Interrupted as pause:
        print(f"\n{pause}", file=sys.stderr)
        raise SystemExit(130) from None
