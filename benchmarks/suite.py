"""Tasks with known sub-tasks: what discovery finds with its defaults, beside other guides and methods. Run it with::

    python benchmarks/suite.py --processes 2
    python benchmarks/suite.py --tasks waypoints waypoints_rescaled --seeds 0 --methods ddo --out /tmp/suite.json

A task (``benchmarks/suite_tasks/``) is made with the seed that discovery starts from, unless ``--starts`` names others
(``--tasks five_options --starts 0 1``: every data set twice); ``_rescaled`` after its name changes the units of every
continuous entry at random. ``options-exact`` is ``discover`` with its defaults and is told nothing, nor is ``options``,
the amortized guide with growth. DDO and CompILE are told the true K, CompILE and CompILE-NP also how many segments an
episode has at most (no more than ten) and their mean length. A tenth of the episodes is held out for the likelihood;
labels are never seen, so that segmentations are scored on all episodes. Every run is written to ``--out`` as soon as it
is done, and finished runs are not repeated.
"""

import base64
import time
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
import tyro
from sklearn.metrics import adjusted_rand_score
from suite_tasks import TASKS, Task, rescaled
from torch import Tensor

from pyro_options.data import Trajectories
from pyro_options.discovery import discover
from pyro_options.errors import choice
from pyro_options.experiments import run_grid
from pyro_options.skills import IN_USE, Skills, boundaries, boundary_scores, found_options, label_scores

HELD_OUT = 0.1
RESCALED = "_rescaled"
MOST_SEGMENTS = 10  # of CompILE, whose cost grows with them

Method = Literal["options-exact", "options", "ddo", "compile", "compile-np"]


@dataclass(frozen=True)
class Args:
    """Compare what is found with what is there."""

    tasks: tuple[str, ...] = tuple(TASKS)  # names of tasks, also with _rescaled after them
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    starts: tuple[int, ...] = (0,)  # of discovery on the same data; 0 has the seed of the data
    methods: tuple[Method, ...] = ("options-exact", "options", "ddo", "compile", "compile-np")
    episodes: int | None = None  # by default as many as the task has
    epochs: int | None = None
    processes: int = 1
    out: Path = Path("benchmarks/results/suite.json")


def make(name: str, seed: int, episodes: int | None = None) -> tuple[Task, Tensor]:
    """A task by name, and for each step the nats by which its units lower the log-likelihood ``(N, T)``."""
    plain = name.removesuffix(RESCALED)
    task = TASKS[choice(plain, "task", TASKS)](seed, **({} if episodes is None else {"episodes": episodes}))
    if plain != name:
        changed = rescaled(task, seed)
        return changed.task, changed.log_determinant
    return task, torch.zeros(task.trajectories.mask.shape, dtype=torch.float64)


def settings(method: str, task: Task) -> dict[str, Any]:
    """Arguments of ``discover``: what a method is told."""
    if method in ("options-exact", "options"):
        return {}
    if method == "ddo":
        return {"num_options": task.num_options, "restarts": 5}
    mask = task.trajectories.mask
    segments = 1 + boundaries(task.labels, mask).sum(1)
    told = {} if method == "compile-np" else {"num_options": task.num_options}
    return told | {
        "num_segments": min(MOST_SEGMENTS, int(segments.max())),
        "segment_length": task.trajectories.num_steps / int(segments.sum()),
        "lstm_size": 16,
        "encoder_hidden": (16, 16),
        "epochs": 40,
    }


def pack_options(options: Tensor, mask: Tensor) -> str:
    """The option of every step as a short text, to compare segmentations of two runs."""
    return base64.b64encode(zlib.compress(options[mask].to(torch.uint8).numpy().tobytes(), 9)).decode()


def unpack_options(text: str) -> np.ndarray:
    """The inverse of :func:`pack_options`."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)


def removal_loss(growth: list[Mapping[str, Any]]) -> float | None:
    """The largest loss of an accepted removal, in nats of all judging rows together; ``None`` without removals."""
    moves = (move for event in growth for move in event["moves"] if move["accepted"] and move["kind"] != "birth")
    losses = [-move["gain"] for move in moves if move["gain"] is not None]
    return max(losses, default=None)


def truly_in_use(task: Task) -> int | None:
    """The number of true options, counted as those in use are: a rare one may cover too few steps."""
    if task.num_options is None:
        return None
    shares = torch.bincount(task.labels[task.trajectories.mask]).double() / task.trajectories.num_steps
    return int((shares >= IN_USE).sum())


def scores(skills: Skills, task: Task) -> dict[str, Any]:
    """Agreement of the segmentation of all episodes with the truth."""
    data, labels = task.trajectories, task.labels
    found = skills.segment(data)
    mask = data.mask
    agreement = label_scores(found.options, labels, mask)
    ours, true = boundaries(found.options, mask), boundaries(labels, mask)
    return {
        "accuracy": agreement.accuracy,
        "nmi": agreement.nmi,
        "boundary_f1": boundary_scores(ours, true, mask, tolerance=0).f1,
        "boundary_f1_within_1": boundary_scores(ours, true, mask, tolerance=1).f1,
        "found_options": found_options(found.options, labels, mask),
        "used_options": found.used_options,
        "mean_segment_length": found.mean_length,
        "segmentation": pack_options(found.options, mask),
    }


def run(task: str, method: str, seed: int, episodes: int | None, epochs: int | None, start: int = 0) -> dict[str, Any]:
    """Discovers and scores the skills of one task by one method."""
    truth, log_determinant = make(task, seed, episodes)
    data, told = truth.trajectories, settings(method, truth)
    if epochs is not None:
        told["epochs"] = epochs
    begun, began_with = time.perf_counter(), seed + 1000 * start
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        skills = discover(data, method, held_out=HELD_OUT, seed=began_with, device="cpu", progress=False, **told)
    seconds = time.perf_counter() - begun
    # the episodes that discover held out, with the determinants in place of their states
    units = Trajectories(log_determinant.unsqueeze(-1), None, data.lengths).split(HELD_OUT, began_with)[1]
    about = skills.metadata
    held_out = about["log_likelihood"]["held_out"]
    return scores(skills, truth) | {
        "true_options": truth.num_options,
        "true_in_use": truly_in_use(truth),
        "own_model": truth.own_model,
        "num_options": skills.num_options,
        "options_in_use": about["options_in_use"],
        "train_log_likelihood": about["log_likelihood"]["train"],
        "held_out_log_likelihood": held_out,
        "held_out_in_original_units": held_out + float(units.states.sum()) / units.num_steps,
        "removal_loss": removal_loss(about["growth"]),
        "seconds": seconds,
        "warnings": sorted({f"{one.category.__name__}: {one.message}" for one in caught}),
    }


def unit_agreement(rows: list[dict]) -> dict[tuple[str, str, int], float]:
    """Adjusted Rand index of each rescaled run with the same run in the original units, by task, method and seed."""
    first = [row for row in rows if not row.get("start")]
    by = {(row["task"], row["method"], row["seed"]): unpack_options(row["segmentation"]) for row in first}
    pairs = {key: (key[0] + RESCALED, *key[1:]) for key in by}
    return {key: adjusted_rand_score(by[key], by[other]) for key, other in pairs.items() if other in by}


def coverage(rows: list[dict]) -> tuple[int, int]:
    """Runs of ours whose 90 % interval of the options in use contains their true number, and all that have both.

    Methods that are told K have no interval worth the name.
    """
    mine = [row for row in rows if row["method"] == "options-exact" and row["true_options"] is not None]
    known = "true_in_use"  # in older rows only the number of true options, of which a rare one is not in use
    intervals = [(row["options_in_use"]["interval"], row.get(known, row["true_options"])) for row in mine]
    return sum(low <= true <= high for (low, high), true in intervals), len(intervals)


def summary(rows: list[dict]) -> list[str]:
    """A line per task and method: medians over the seeds, and every K; then how often the interval of K is right."""
    columns = {"accuracy": ".3f", "nmi": ".3f", "boundary_f1": ".3f", "boundary_f1_within_1": ".3f"}
    columns |= {"held_out_in_original_units": ".4f", "mean_segment_length": ".1f", "seconds": ".0f"}
    header = ["task", "method", "true K", "in use", "accuracy", "NMI", "F1", "F1 within 1", "nats", "length", "seconds"]
    lines = [header]
    for task, method in dict.fromkeys((row["task"], row["method"]) for row in rows):
        mine = [row for row in rows if (row["task"], row["method"]) == (task, method)]
        used = " ".join(str(row["used_options"]) for row in mine)
        figures = [f"{median(row[key] for row in mine):{form}}" for key, form in columns.items()]
        lines.append([task, method, str(mine[0]["true_options"]), used, *figures])
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    for (task, method, seed), same in unit_agreement(rows).items():
        text.append(f"{task}, {method}, seed {seed}: adjusted Rand index {same:.3f} with the rescaled run")
    covered, known = coverage(rows)
    if known:
        share = f"{covered} of {known} runs ({covered / known:.0%})"
        text.append(f"options-exact: the 90 % interval of the options in use contains the true number in {share}")
    return text


def main(args: Args) -> list[dict]:
    for name in args.tasks:
        choice(name.removesuffix(RESCALED), "task", TASKS)
    sizes = {"episodes": args.episodes, "epochs": args.epochs}
    grid = {}
    for start, seed, task, method in product(args.starts, args.seeds, args.tasks, args.methods):
        other, named = ({"start": start}, f", start {start}") if start else ({}, "")
        grid[f"{task}, {method}, seed {seed}{named}"] = {"task": task, "method": method, "seed": seed} | sizes | other
    rows = run_grid(run, grid, args.out, args.processes)
    print("\n".join(summary(rows)))
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
