"""Roots of functions of one variable."""

from collections.abc import Callable

import torch
from torch import Tensor


def bisect(falling: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, steps: int = 60) -> Tensor:
    """Where a falling function crosses zero, elementwise; the end that is nearer to it if it does so outside.

    :param falling: takes and returns tensors of the shape of ``low`` and ``high``
    """
    for _ in range(steps):
        middle = (low + high) / 2
        above = falling(middle) > 0
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (low + high) / 2
