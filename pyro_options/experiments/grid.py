"""Runs a grid of jobs in local processes; results are saved as they finish, and finished runs are not repeated."""

import json
import logging
import multiprocessing
import os
import platform
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from pyro_options.errors import check
from pyro_options.persistence.storage import write_json

logger = logging.getLogger(__name__)

Job = Callable[..., dict[str, Any]]
Outcome = dict | Exception  # the result, or why the job failed

PACKAGES = ("pyro-options", "torch", "pyro-ppl", "numpy", "gymnasium", "ale-py")


def run_grid(
    job: Job, grid: Mapping[str, Mapping[str, Any]], path: Path, processes: int = 1, progress: bool = True
) -> list[dict]:
    """Runs ``job(**settings)`` for every entry of a grid whose result is not yet in ``path``.

    Each run uses one thread, and its result is written as soon as it finishes: after Ctrl-C, the same call resumes. A
    failed run does not stop the others; its exception is raised at the end. The file also records the commands and
    package versions that produced its runs::

        runs = run_grid(train, {f"seed {s}": {"seed": s} for s in range(10)}, Path("runs.json"), processes=2)

    :param job: a function that other processes can import; returns JSON values
    :param grid: name of a run -> its settings; run in this order
    :param path: JSON file; runs in it that are not in the grid are kept
    :param processes: runs at a time; 1 runs in this process
    :return: a row for every entry of the grid: ``name``, settings, results, ``processor_seconds``, ``settings`` (names
        of the settings) and ``origin`` (index into the file's list of commands)
    """
    check(processes >= 1, "processes >= 1", processes)
    jobs = {name: _plain(settings) for name, settings in grid.items()}
    record = _read(path)
    done = {row["name"]: row for row in record["runs"]}
    for name in jobs.keys() & done.keys():
        _check_same_settings(jobs[name], done[name], path)
    todo = {name: settings for name, settings in jobs.items() if name not in done}
    failures: dict[str, Exception] = {}
    if todo:
        origin = _origin(record)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tqdm(total=len(todo), disable=not progress, unit="run", dynamic_ncols=True) as bar:
            for name, outcome in _outcomes(job, todo, min(processes, len(todo))):
                bar.set_postfix_str(name)
                bar.update()
                if isinstance(outcome, Exception):
                    logger.error("%s failed", name, exc_info=outcome)
                    failures[name] = outcome
                    continue
                done[name] = {"name": name, "settings": sorted(todo[name]), "origin": origin} | todo[name] | outcome
                record["runs"].append(done[name])
                write_json(path, record, indent=1)
    if failures:
        name, error = next(iter(failures.items()))
        count = f"{len(failures)} of {len(todo)} runs failed"
        raise RuntimeError(f"{count}, the first of them {name!r}: {error}") from error
    return [done[name] for name in grid]


def read_runs(path: Path) -> list[dict]:
    """The rows of a file that :func:`run_grid` wrote."""
    return _read(path)["runs"]


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings after a round trip through JSON, to compare them with those in a file."""
    return json.loads(json.dumps(dict(settings)))


def _check_same_settings(settings: dict, row: dict, path: Path) -> None:
    old = {key: row[key] for key in row["settings"]}
    changed = [key for key in sorted(old.keys() | settings.keys()) if old.get(key) != settings.get(key)]
    was, now = ({key: x.get(key) for key in changed} for x in (old, settings))
    check(not changed, f"the settings that {row['name']!r} has in {path}, {was},", now, "Choose another file.")


def _read(path: Path) -> dict:
    if not path.exists():
        return {"origins": [], "runs": []}
    record = json.loads(path.read_text())
    check(isinstance(record, dict) and {"origins", "runs"} <= record.keys(), "a file of runs", path)
    return record


def _origin(record: dict) -> int:
    """Index of this command, with its package versions, in the file's ``origins``; appended if it is new."""
    script, *arguments = sys.argv
    script = Path(os.path.relpath(script)).as_posix() if script else ""
    # absolute paths mean nothing on other machines
    arguments = [Path(x).name if os.path.isabs(x) else x for x in arguments]
    origin = {
        "command": shlex.join(["python", script, *arguments]),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }
    if origin not in record["origins"]:
        record["origins"].append(origin)
    return record["origins"].index(origin)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _timed(job: Job, settings: dict) -> dict:
    start = time.process_time()
    result = _plain(job(**settings))
    clash = {key: result[key] for key in result.keys() & settings.keys() if result[key] != settings[key]}
    check(not clash, "results that do not go by the name of another setting", clash)
    return result | {"processor_seconds": time.process_time() - start}


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _outcomes(job: Job, todo: dict[str, dict], processes: int) -> Iterator[tuple[str, Outcome]]:
    """Name and outcome of each job, as they finish."""
    if processes > 1:
        yield from _parallel(job, todo, processes)
        return
    with _one_thread():
        for name, settings in todo.items():
            outcome: Outcome
            try:
                outcome = _timed(job, settings)
            except Exception as error:
                outcome = error
            yield name, outcome


def _parallel(job: Job, todo: dict[str, dict], processes: int) -> Iterator[tuple[str, Outcome]]:
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_start_worker)
    try:
        futures = {pool.submit(_timed, job, settings): name for name, settings in todo.items()}
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
