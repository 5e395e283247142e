"""The registry of kernels: availability, devices, threads, and autograd functions that keep Pyro's provenance."""

import importlib
import importlib.util
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cache, cached_property
from itertools import pairwise
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import torch
from pyro.ops.provenance import detach_provenance, get_provenance, track_provenance
from torch import Tensor

from .threads import run_shares


class DeviceKernels(Protocol):
    """Twins of the compiled kernels on another device, with the same arguments and one launch a call."""

    def has(self, name: str, tensors: Sequence[Tensor]) -> bool:
        """Whether there is a twin of this kernel module that accepts these tensors of its device."""

    def run(
        self, name: str, function: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], settings: Sequence[int]
    ) -> None:
        """Calls a function of the twin, which fills ``outputs``."""


class TritonKernels:
    """The twins in :mod:`pyro_options.kernels.cuda`; none without Triton (``pip install "pyro-options[cuda]"``)."""

    @staticmethod
    @cache
    def _module(name: str) -> ModuleType | None:
        try:
            return importlib.import_module(f"pyro_options.kernels.cuda.{name}")
        except ImportError:
            return None

    def has(self, name: str, tensors: Sequence[Tensor]) -> bool:
        module = self._module(name)
        return module is not None and module.accepts(*tensors)

    def run(self, name, function, inputs, outputs, settings) -> None:
        device = outputs[0].device
        with torch.cuda.device(device) if device.type == "cuda" else nullcontext():  # the interpreter is on the CPU
            getattr(self._module(name), function)(tuple(inputs), tuple(outputs), tuple(settings))


#: device type -> its kernels; devices that are not listed, except the CPU, run plain torch
DEVICES: dict[str, DeviceKernels] = {"cuda": TritonKernels()}


class Kernels:
    """A module of compiled functions ``kernel(first, last, *arrays)``, which process rows ``first`` to ``last - 1``.

    :param name: of the module
    :param thread_work: the least work per thread, in the units of ``work`` in :meth:`run`
    """

    def __init__(self, name: str, thread_work: int):
        self.name, self.thread_work = name, thread_work
        self.used = False  # whether a kernel of the module has run in this process

    @cached_property
    def module(self) -> ModuleType | None:
        """The imported module for the CPU; ``None`` without numba."""
        try:
            return importlib.import_module(f"pyro_options.kernels.{self.name}")
        except ImportError:
            return None

    def take(self, *tensors: Tensor) -> bool:
        """Whether the kernels are available and accept these tensors: of one device, all float32 or all float64."""
        kinds = {(x.device.type, x.dtype) for x in tensors}
        device, dtype = next(iter(kinds))
        if len(kinds) > 1 or dtype not in (torch.float32, torch.float64):
            return False
        if device == "cpu":
            return self.module is not None
        return device in DEVICES and DEVICES[device].has(self.name, tensors)

    def run(
        self,
        kernel: str,
        work: int,
        inputs: Iterable[Tensor],
        outputs: Iterable[Tensor],
        settings: Sequence[int] = (),
    ) -> None:
        """Calls a kernel on contiguous tensors, whose first dimension is that of rows, and fills ``outputs``.

        On the CPU on equal shares of the rows, one per thread: at most torch's number of threads.

        :param work: total work, which decides how many threads are worth starting
        :param settings: integers, which a compiled kernel receives as one array between inputs and outputs, if any
        """
        self.used = True
        inputs, outputs = [x.detach().contiguous() for x in inputs], [x.detach() for x in outputs]
        device = inputs[0].device.type
        if device == "cpu":
            between = [np.array(settings)] if settings else []
            arrays = [*(x.numpy() for x in inputs), *between, *(x.numpy() for x in outputs)]
            shares = max(1, min(torch.get_num_threads(), len(inputs[0]), work // self.thread_work))
            edges = [len(inputs[0]) * i // shares for i in range(shares + 1)]
            run_shares(getattr(self.module, kernel), [(first, last, *arrays) for first, last in pairwise(edges)])
        else:
            DEVICES[device].run(self.name, kernel, inputs, outputs, settings)


#: every kernel by its module in this folder, with the least work per thread. Each saves at least a twentieth of a
#: training step compared with the same computation in torch (``benchmarks/kernels.py``)
KERNELS = {
    name: Kernels(name, thread_work)
    for name, thread_work in {
        "path_marginal": 50_000,  # steps times options
        "path_choice": 50_000,  # steps times options
        "chain_marginal": 20_000,  # steps times states
        "path_draw": 1_000,  # steps
        "path_steps": 1_000,  # steps
        "lstm": 1_000,  # steps
        "segment_marginal": 200,  # steps
        "stick_draw": 10_000,  # sticks
        "bit_product": 100_000,  # bytes
        "log_choice": 100_000,  # steps times options times actions
    }.items()
}


def to_be_compiled() -> bool:
    """Whether kernels will be compiled, or read from the cache of an earlier process, when they are first used."""
    return not any(one.used for one in KERNELS.values()) and importlib.util.find_spec("numba") is not None


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
