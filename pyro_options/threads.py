"""Compiled kernels on several threads, and between torch and Pyro."""

import importlib
import threading
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import torch
from pyro.ops.provenance import detach_provenance, get_provenance, track_provenance
from torch import Tensor


@cache
def kernels(module: str):
    """A module of compiled kernels, or ``None`` without numba."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def compilable(*tensors: Tensor) -> bool:
    """Whether a kernel can take these tensors: on the CPU, all in single or all in double precision."""
    kinds = {(x.device.type, x.dtype) for x in tensors}
    return kinds in ({("cpu", torch.float32)}, {("cpu", torch.float64)})


def share(kernel: Callable, num_rows: int, max_threads: int, *tensors: Tensor) -> None:
    """Calls ``kernel(first, last, *arrays)`` on equal shares of the rows, one for each of torch's threads."""
    arrays = [x.detach().numpy() for x in tensors]
    shares = max(1, min(torch.get_num_threads(), num_rows, max_threads))
    edges = [num_rows * i // shares for i in range(shares + 1)]
    calls = [(first, last, *arrays) for first, last in pairwise(edges)]
    threads = [threading.Thread(target=kernel, args=call) for call in calls[1:]]
    for thread in threads:
        thread.start()
    kernel(*calls[0])
    for thread in threads:
        thread.join()


def apply(function: type[torch.autograd.Function], *tensors: Tensor) -> Tensor:
    """Calls ``function.apply`` on tensors some of which may be draws that Pyro tracks to know what depends on them.

    Such a tensor is a wrapper, which an autograd function would take for a tensor without gradients.
    """
    provenance = frozenset().union(*map(get_provenance, tensors))
    result = function.apply(*map(detach_provenance, tensors))
    return track_provenance(result, provenance) if provenance else result
