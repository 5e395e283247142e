"""Where the jobs of a grid run: in processes of this machine, or on a Ray cluster."""

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any

import torch

from pyro_options.errors import check, require

Job = Callable[..., dict[str, Any]]
Outcome = dict | Exception  # the result, or why the job failed
Outcomes = Iterator[tuple[str, Outcome]]  # name and outcome of each job, as they finish


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings after a round trip through JSON, to compare them with those in a file."""
    return json.loads(json.dumps(dict(settings)))


def timed(job: Job, settings: dict) -> dict:
    """The result of a job as JSON values, with the processor time that it took."""
    start = time.process_time()
    result = plain(job(**settings))
    clash = {key: result[key] for key in result.keys() & settings.keys() if result[key] != settings[key]}
    check(not clash, "results that do not go by the name of another setting", clash)
    return result | {"processor_seconds": time.process_time() - start}


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch uses one thread inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def local_outcomes(job: Job, todo: dict[str, dict], processes: int | None) -> Outcomes:
    """Runs jobs in this process, or in a pool of several."""
    count = min(processes or 1, len(todo))
    if count > 1:
        yield from _parallel(job, todo, count)
        return
    with one_thread():
        for name, settings in todo.items():
            outcome: Outcome
            try:
                outcome = timed(job, settings)
            except Exception as error:
                outcome = error
            yield name, outcome


def _parallel(job: Job, todo: dict[str, dict], processes: int) -> Outcomes:
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_start_worker)
    try:
        futures = {pool.submit(timed, job, settings): name for name, settings in todo.items()}
        for future in as_completed(futures):
            error = future.exception()
            if error is None:
                yield futures[future], future.result()
            elif isinstance(error, Exception):
                yield futures[future], error
            else:
                raise error
    except BaseException:  # Ctrl-C, or the caller closed the generator: do not wait for the remaining runs
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _start_worker() -> None:
    """Uses one thread, ignores Ctrl-C (the parent handles it), and exits when the parent does, even if it is killed."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent) -> None:
    parent.join()
    os._exit(1)


def ray_outcomes(job: Job, todo: dict[str, dict], processes: int | None) -> Outcomes:
    """Runs each job as a Ray task of one CPU and one thread.

    A task is not retried: whoever runs the grid again repeats what failed. The driver alone writes results, so tasks
    that are still running when it ends are lost and run again.
    """
    ray = require("ray", "ray")
    ours = not ray.is_initialized()
    if ours:
        ray.init(log_to_driver=False)  # joins the cluster of RAY_ADDRESS if there is one
    try:
        count = processes or max(1, int(ray.cluster_resources().get("CPU", 1)))
        task = ray.remote(num_cpus=1, max_retries=0)(_single_threaded)
        waiting = iter(todo.items())
        running: dict[Any, str] = {}  # names by reference
        while True:
            while len(running) < count and (entry := next(waiting, None)) is not None:
                name, settings = entry
                running[task.remote(job, settings)] = name
            if not running:
                return
            (ready,), _ = ray.wait(list(running), num_returns=1)
            yield running.pop(ready), _ray_outcome(ray, ready)
    finally:
        if ours:
            ray.shutdown()


def _single_threaded(job: Job, settings: dict) -> dict:
    with one_thread():
        return timed(job, settings)


def _ray_outcome(ray: Any, reference: Any) -> Outcome:
    """The result of a finished task, or its exception as the job raised it."""
    try:
        return ray.get(reference)
    except Exception as error:
        cause = getattr(error, "cause", None)
        return cause if isinstance(cause, Exception) else error


#: backend -> runs jobs, given the number of them to run at a time, ``None`` for the backend's own default
BACKENDS: dict[str, Callable[[Job, dict[str, dict], int | None], Outcomes]] = {
    "local": local_outcomes,
    "ray": ray_outcomes,
}
