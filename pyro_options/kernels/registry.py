"""The registry of compiled kernels: availability, threads, and autograd functions that keep Pyro's provenance."""

import importlib
import threading
from functools import cached_property
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from pyro.ops.provenance import detach_provenance, get_provenance, track_provenance
from torch import Tensor


class Kernels:
    """A module of compiled functions ``kernel(first, last, *arrays)``, which process rows ``first`` to ``last - 1``.

    :param name: of the module
    :param thread_work: the least work per thread, in the units of ``work`` in :meth:`run`
    """

    def __init__(self, name: str, thread_work: int):
        self.name, self.thread_work = name, thread_work

    @cached_property
    def module(self) -> ModuleType | None:
        """The imported module; ``None`` without numba."""
        try:
            return importlib.import_module(self.name)
        except ImportError:
            return None

    def take(self, *tensors: Tensor) -> bool:
        """Whether the kernels are available and accept these tensors: on the CPU, all float32 or all float64."""
        kinds = {(x.device.type, x.dtype) for x in tensors}
        return kinds in ({("cpu", torch.float32)}, {("cpu", torch.float64)}) and self.module is not None

    def run(self, kernel: str, num_rows: int, work: int, *tensors: Tensor) -> None:
        """Calls a kernel on equal shares of the rows, one per thread: at most torch's number of threads.

        :param work: total work, which decides how many threads are worth starting
        """
        function, arrays = getattr(self.module, kernel), [x.detach().numpy() for x in tensors]
        shares = max(1, min(torch.get_num_threads(), num_rows, work // self.thread_work))
        edges = [num_rows * i // shares for i in range(shares + 1)]
        calls = [(first, last, *arrays) for first, last in pairwise(edges)]
        threads = [threading.Thread(target=function, args=call) for call in calls[1:]]
        for thread in threads:
            thread.start()
        function(*calls[0])
        for thread in threads:
            thread.join()


#: every kernel by its module in this folder, with the least work per thread. Each saves at least a twentieth of a
#: training step compared with the same computation in torch (``benchmarks/kernels.py``)
KERNELS = {
    name: Kernels(f"pyro_options.kernels.{name}", thread_work)
    for name, thread_work in {
        "path_marginal": 50_000,  # steps times options
        "path_draw": 1_000,  # steps
        "path_steps": 1_000,  # steps
        "lstm": 1_000,  # steps
        "segment_marginal": 200,  # steps
    }.items()
}


def keep_provenance(result: Any, *inputs: Any) -> Any:
    """``result``, computed from ``inputs`` by a kernel, with Pyro's provenance of all of them."""
    provenance = frozenset().union(*map(get_provenance, inputs))
    return track_provenance(result, provenance) if provenance else result


class TrackedFunction(torch.autograd.Function):
    """An autograd function that keeps Pyro's provenance: every custom function of the library derives from it.

    ``TraceGraph_ELBO`` wraps non-reparameterized draws, and everything computed from them, in a tensor subclass that
    records which draws a cost depends on. A plain autograd function treats such a wrapper as a tensor without
    gradients and silently drops both the record and the gradients.
    """

    @classmethod
    def apply(cls, *inputs: Any) -> Any:
        """The function of these inputs, with the provenance of all of them."""
        return keep_provenance(super().apply(*map(detach_provenance, inputs)), *inputs)
