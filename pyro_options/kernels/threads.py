"""Runs shares of a kernel's work at the same time, on torch's own threads where they can be had.

After an operation with several threads, those of OpenMP keep their cores busy for some milliseconds, waiting for the
next one. Other threads would compete with them: the marginal of 128 episodes of 300 steps took 2.0 ms instead of 1.0 ms
(median, two cores). So the shares run on the OpenMP threads that torch has loaded, if it is GNU's library.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch

_Task = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_PROCESS = os.getpid()  # a forked child has none of the threads that a parallel region would wait for


def _loaded_libraries() -> set[str]:
    """Paths of the shared libraries in this process; empty on systems other than Linux."""
    try:
        with open("/proc/self/maps") as maps:
            return {line.split(maxsplit=5)[5].strip() for line in maps if ".so" in line}
    except OSError:
        return set()


def _torch_openmp(libraries: set[str]) -> str | None:
    """The GNU OpenMP library that torch uses among these; ``None`` without one, or where that is unclear."""
    found = {path for path in libraries if Path(path).name.startswith("libgomp")}
    own = {path for path in found if Path(torch.__file__).parent in Path(path).parents}
    candidates = own or found
    return candidates.pop() if len(candidates) == 1 else None


@cache
def _parallel_region() -> Callable | None:
    """``GOMP_parallel(task, data, threads, flags)``, which releases the GIL; ``None`` if there is none to use."""
    path = _torch_openmp(_loaded_libraries())
    if path is None or "ATen parallel backend: OpenMP" not in torch.__config__.parallel_info():
        return None
    region = getattr(ctypes.CDLL(path), "GOMP_parallel", None)
    if region is not None:
        region.argtypes, region.restype = (_Task, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
    return region


def run_shares(function: Callable[..., object], calls: Sequence[tuple]) -> None:
    """Calls ``function(*call)`` for each of ``calls`` at the same time; it must release the GIL to gain from it."""
    if len(calls) == 1:
        function(*calls[0])
        return
    left, errors = iter(calls), []

    def work(_: object = None) -> None:
        """Takes shares while there are any, so that a team of any size does them all."""
        try:
            for call in left:
                function(*call)
        except BaseException as error:  # a callback from C cannot raise
            errors.append(error)

    region = _parallel_region() if os.getpid() == _PROCESS else None
    if region is not None:
        region(_Task(work), None, torch.get_num_threads(), 0)
    else:
        threads = [threading.Thread(target=work) for _ in calls[1:]]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
