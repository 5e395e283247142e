"""Jobs that other processes can import."""

import os
import signal
import time
from pathlib import Path

import torch


def square(x: int, marks: str = "") -> dict:
    """Fails for negative numbers; leaves a mark for every call."""
    if marks:
        with open(marks, "a") as file:
            file.write(f"{x}\n")
    if x < 0:
        raise ArithmeticError(f"{x} has no root")
    return {"square": x * x, "threads": torch.get_num_threads(), "process": os.getpid(), "pair": (x, x)}


def wait_and_square(x: int, folder: str) -> dict:
    """Jobs 0 and 1 are quick; the others wait until they may go on."""
    while x > 1 and not Path(folder, "go on").exists():
        time.sleep(0.05)
    return square(x, str(Path(folder, "calls")))


def rename(x: int) -> dict:
    """Gives back another number under the name of its setting."""
    return {"x": x + 1}


def sleep_for_an_hour(x: int, folder: str) -> dict:
    """Job 0 is quick; the others leave a file when they start, and take longer than anybody waits."""
    if x > 0:
        Path(folder, f"{x} has started").touch()
        time.sleep(3600)
    return {"x": x}


def interrupt(x: int) -> dict:
    """The third is stopped from outside."""
    if x == 2:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)  # the signal ends it
    return {"x": x}
