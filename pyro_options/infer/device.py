"""Where a training computes, and the seeds that it starts from."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pyro_options.errors import InputError, check


def resolve_device(device: str) -> torch.device:
    """The torch device of a name; ``auto`` is CUDA if available, else the CPU. Raises if this machine lacks it."""
    try:
        found = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    except RuntimeError as error:
        raise InputError(f"Expected a device like auto, cpu or cuda:0 but got {device!r}.") from error
    if found.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        fix = 'Pass device="auto" for what there is; a CUDA build of torch and a driver are needed.'
        check((found.index or 0) < count, f"one of {count} CUDA devices that torch finds", repr(device), fix)
    return found


class RandomState(NamedTuple):
    """Torch's random states on the CPU and on the device of a training."""

    cpu: Tensor
    device: Tensor | None  # None if it is the CPU

    @classmethod
    def of(cls, device: torch.device) -> "RandomState":
        """The present states; they are kept on the CPU, so this does not wait for the device."""
        own = None if device.type == "cpu" else torch.get_device_module(device).get_rng_state(device.index or 0)
        return cls(torch.get_rng_state(), own)

    def set(self, device: torch.device) -> None:
        """Returns to these states."""
        torch.set_rng_state(self.cpu)
        if self.device is not None:
            torch.get_device_module(device).set_rng_state(self.device, device.index or 0)

    @contextmanager
    def repeated(self, device: torch.device) -> Iterator[None]:
        """Draws inside start from these states; afterwards the present ones continue."""
        now = RandomState.of(device)
        self.set(device)
        try:
            yield
        finally:
            now.set(device)


def set_seed(seed: int) -> None:
    """Seeds torch, numpy and Python."""
    check(0 <= seed < 2**32, "a seed in [0, 2**32)", seed)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
