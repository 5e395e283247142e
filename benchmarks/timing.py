"""Alternating time measurements, so that other load on the machine affects all candidates alike."""

import gc
import time
from collections.abc import Callable, Mapping

import torch


def race(contenders: Mapping[str, Callable[[], object]], rounds: int, warm: bool = False) -> dict[str, float]:
    """The minimum time of ``rounds`` runs of each function, in seconds, after one warm-up run; the runs alternate.

    :param warm: run each function once more before it is timed, so that it does not find the caches, the free memory
        and the waiting threads of the one before: for functions of a few milliseconds

    With one thread it measures processor time, which other processes affect less; with more threads, wall-clock time.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    best = dict.fromkeys(contenders, float("inf"))
    for run in contenders.values():
        run()
    gc.collect()
    for _ in range(rounds):
        for name, run in contenders.items():
            if warm:
                run()
            start = clock()
            run()
            best[name] = min(best[name], clock() - start)
    return best
