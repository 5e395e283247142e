"""Roots of scalar functions, elementwise."""

from collections.abc import Callable

import torch
from torch import Tensor


def bisect(falling: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, steps: int = 60) -> Tensor:
    """The root of a decreasing function in ``[low, high]``, elementwise; the nearer endpoint if the root lies outside.

    :param falling: decreasing, from and to tensors of the shape of ``low`` and ``high``
    """
    for _ in range(steps):
        middle = (low + high) / 2
        above = falling(middle) > 0
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (low + high) / 2
