"""Runs a grid of jobs; results are saved as they finish, and finished runs are not repeated."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from pyro_options.errors import check, check_count, choice
from pyro_options.persistence.storage import write_json

from .backends import BACKENDS, Job, plain
from .origins import provenance

logger = logging.getLogger(__name__)


def run_grid(
    job: Job,
    grid: Mapping[str, Mapping[str, Any]],
    path: Path,
    processes: int | None = None,
    progress: bool = True,
    backend: str = "local",
) -> list[dict]:
    """Runs ``job(**settings)`` for every entry of a grid whose result is not yet in ``path``.

    Each run uses one thread, and its result is written as soon as it finishes: after Ctrl-C, the same call resumes. A
    failed run does not stop the others; its exception is raised at the end. The file also records what
    produced its runs (:func:`~pyro_options.experiments.provenance`)::

        runs = run_grid(train, {f"seed {s}": {"seed": s} for s in range(10)}, Path("runs.json"), processes=2)

    :param job: a function that other processes can import; returns JSON values
    :param grid: name of a run -> its settings; run in this order
    :param path: JSON file; runs in it that are not in the grid are kept
    :param processes: runs at a time; by default 1, which runs in this process, or as many as a Ray cluster has CPUs
    :param backend: ``local`` processes, or ``ray``: the cluster that this process is connected to, that of the
        environment variable ``RAY_ADDRESS``, or one that is started on this machine for the duration of the call. Rows,
        resumption and failures are the same
    :return: a row for every entry of the grid: ``name``, settings, results, ``processor_seconds``, ``settings`` (names
        of the settings) and ``origin`` (index into the file's list of commands)
    """
    choice(backend, "backend", BACKENDS)
    if processes is not None:
        check_count(processes, "processes")
    jobs = {name: plain(settings) for name, settings in grid.items()}
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
            for name, outcome in BACKENDS[backend](job, todo, processes):
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
    """Index of this command, with what it ran on, in the file's ``origins``; appended if it is new."""
    origin = provenance()
    if origin not in record["origins"]:
        record["origins"].append(origin)
    return record["origins"].index(origin)
