"""Jobs that other processes can import."""

import os
import signal
import time

import torch


def square(x: int, marks: str = "") -> dict:
    """Fails for negative numbers; leaves a mark for every call."""
    if marks:
        with open(marks, "a") as file:
            file.write(f"{x}\n")
    if x < 0:
        raise ArithmeticError(f"{x} has no root")
    return {"square": x * x, "threads": torch.get_num_threads(), "process": os.getpid(), "pair": (x, x)}


def rename(x: int) -> dict:
    """Gives back another number under the name of its setting."""
    return {"x": x + 1}


def nap(x: int) -> dict:
    """The first is quick; the others take longer than anybody waits."""
    time.sleep(0 if x == 0 else 600)
    return {"x": x}


def interrupt(x: int) -> dict:
    """The third is stopped from outside."""
    if x == 2:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    return {"x": x}
