"""Times of contenders that take turns, so that whatever else the machine does hits all of them alike."""

import gc
import time
from collections.abc import Callable, Mapping


def race(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The fastest of ``rounds`` turns of each contender, in seconds, after one turn to warm up."""
    best = dict.fromkeys(contenders, float("inf"))
    for run in contenders.values():
        run()
    gc.collect()
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best
