"""Times of contenders that take turns, so that whatever else the machine does hits all of them alike."""

import gc
import time
from collections.abc import Callable, Mapping

import torch


def race(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The fastest of ``rounds`` turns of each contender, in seconds, after one turn to warm up.

    With one thread it is processor time that counts, which other processes do not take away; with more, the clock.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    best = dict.fromkeys(contenders, float("inf"))
    for run in contenders.values():
        run()
    gc.collect()
    for _ in range(rounds):
        for name, run in contenders.items():
            start = clock()
            run()
            best[name] = min(best[name], clock() - start)
    return best
