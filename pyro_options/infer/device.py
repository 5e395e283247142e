"""Where a training computes, and the seeds that it starts from."""

import random

import numpy as np
import torch

from pyro_options.errors import InputError, check


def resolve_device(device: str) -> torch.device:
    """The torch device of a name; ``auto`` is CUDA if available, else the CPU."""
    try:
        return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    except RuntimeError as error:
        raise InputError(f"Expected a device like auto, cpu or cuda:0 but got {device!r}.") from error


def set_seed(seed: int) -> None:
    """Seeds torch, numpy and Python."""
    check(0 <= seed < 2**32, "a seed in [0, 2**32)", seed)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
