"""Hard options: what they find beside the exact guide and in what time, and as a start of it. Run it with::

    python benchmarks/hard_options.py
    python benchmarks/hard_options.py --seeds 0 --messages 6 --tasks --out /tmp/hard_options.json

Known options (as in ``benchmarks/recovery.py``) and the message task (as in ``examples/toy_message.py``), each by
``options-hard`` and, for some seeds, by ``options-exact``, whose processor time is the yardstick. Then tasks of
``benchmarks/suite.py``, with the default start and with ``start="hard"``, which are otherwise the same training.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Literal

import tyro
from suite_tasks import TASKS

from pyro_options.data import Trajectories, synthetic_options
from pyro_options.discovery import discover
from pyro_options.envs import final_action_probabilities, message_demonstrations, message_success
from pyro_options.experiments import run_grid
from pyro_options.infer import TrainConfig
from pyro_options.skills import Skills, label_scores

NUM_OPTIONS, EPISODES, HELD_OUT = 5, 240, 40  # of known options
ACTIONS = {"discrete": NUM_OPTIONS + 1, "continuous": None}

Kind = Literal["discrete", "continuous"]


@dataclass(frozen=True)
class Args:
    """Measure hard options."""

    seeds: tuple[int, ...] = tuple(range(10))
    exact_seeds: tuple[int, ...] = (0, 1)
    """seeds for which the exact guide is trained too"""
    kinds: tuple[Kind, ...] = ("discrete", "continuous")
    messages: tuple[int, ...] = tuple(range(2, 13))
    exact_messages: tuple[int, ...] = (2, 6, 12)
    tasks: tuple[str, ...] = ("waypoints_clipped", "glm_hmm", "random_actions", "five_options")
    """of the suite, to compare starts on"""
    task_seeds: tuple[int, ...] = (0, 1)
    episodes: int = 60
    """of a task of the suite"""
    task_epochs: int | None = 30
    """of the exact guide on these tasks"""
    epochs: int | None = None
    """of the exact guide on the other problems"""
    processes: int = 1
    out: Path = Path("benchmarks/results/hard_options.json")


def timed(find: Callable[[], Skills]) -> tuple[Skills, float]:
    """Skills, and the processor seconds that they took."""
    start = time.process_time()
    return find(), time.process_time() - start


@cache
def warm_up() -> None:
    """Loads and compiles what both methods use, which would otherwise count as time of the first run."""
    data = message_demonstrations(2, 20)
    for method, more in (("options-hard", {}), ("options-exact", {"epochs": 1})):
        discover(data, method, device="cpu", progress=False, trust=False, **more)


def known(kind: str, method: str, seed: int, epochs: int | None) -> dict[str, Any]:
    """Recovery of known options."""
    truth = synthetic_options(NUM_OPTIONS, EPISODES, num_actions=ACTIONS[kind], seed=seed)
    data, cut = truth.trajectories, EPISODES - HELD_OUT
    more = {"epochs": epochs} if method == "options-exact" else {}
    given = {"seed": seed, "device": "cpu", "progress": False, "trust": False} | more
    skills, seconds = timed(lambda: discover(data[:cut], method, **given))
    found = skills.segment(data[cut:])
    accuracy = label_scores(found.options, truth.options[cut:], data[cut:].mask).accuracy
    return {
        "num_options": skills.num_options,
        "used_options": found.used_options,
        "accuracy": accuracy,
        "log_likelihood": found.log_likelihood_per_step,
        "solved": found.used_options == NUM_OPTIONS and accuracy >= 0.95,
        "seconds": seconds,
    }


def messages(count: int, method: str, seed: int, epochs: int | None) -> dict[str, Any]:
    """The message task, by the exact guide with the settings of ``toy_message.py``."""
    data = message_demonstrations(count, 1000, seed)
    more: dict[str, Any] = {}
    if method == "options-exact":
        more = {"preset": "message", "train": TrainConfig(epochs=100 if epochs is None else epochs)}
    given = {"seed": seed, "device": "cpu", "progress": False, "trust": False} | more
    skills, seconds = timed(lambda: discover(data, method, **given))
    solved, worst = message_success(final_action_probabilities(skills.policy))
    found = skills.segment(message_demonstrations(count, 200, seed + 10_000))
    return {
        "num_options": skills.num_options,
        "used_options": found.used_options,
        "worst_probability": worst,
        "log_likelihood": found.log_likelihood_per_step,
        "solved": solved,
        "seconds": seconds,
    }


def started(task: str, start: str, seed: int, episodes: int, epochs: int | None) -> dict[str, Any]:
    """A task of the suite by the exact guide from one of two starts."""
    truth = TASKS[task](seed, episodes=episodes)
    data: Trajectories = truth.trajectories
    more: dict[str, Any] = {"start": start} if start == "hard" else {}
    given = {"seed": seed, "device": "cpu", "progress": False, "trust": False, "epochs": epochs, "held_out": 0.1} | more
    skills, seconds = timed(lambda: discover(data, **given))
    found = skills.segment(data)
    return {
        "true_options": truth.num_options,
        "used_options": found.used_options,
        "accuracy": label_scores(found.options, truth.labels, data.mask).accuracy,
        "held_out_log_likelihood": skills.metadata["log_likelihood"]["held_out"],
        "seconds": seconds,
    }


def run(part: str, **settings: Any) -> dict[str, Any]:
    """One run of one part."""
    warm_up()
    return {"known": known, "messages": messages, "starts": started}[part](**settings)


def grid_of(args: Args) -> dict[str, dict[str, Any]]:
    """All runs by name."""
    grid: dict[str, dict[str, Any]] = {}
    epochs = args.epochs
    for method in ("options-hard", "options-exact"):
        hard = method == "options-hard"
        for seed, kind in product(args.seeds if hard else args.exact_seeds, args.kinds):
            settings = {"kind": kind, "method": method, "seed": seed, "epochs": epochs}
            grid[f"{kind}, {method}, seed {seed}"] = {"part": "known", **settings}
        counts = args.messages if hard else args.exact_messages
        for seed, count in product(args.seeds if hard else args.exact_seeds, counts):
            settings = {"count": count, "method": method, "seed": seed, "epochs": epochs}
            grid[f"{count} messages, {method}, seed {seed}"] = {"part": "messages", **settings}
    for seed, task, start in product(args.task_seeds, args.tasks, ("default", "hard")):
        settings = {"task": task, "start": start, "seed": seed, "episodes": args.episodes, "epochs": args.task_epochs}
        grid[f"{task}, {start} start, seed {seed}"] = {"part": "starts", **settings}
    return grid


def comparison(rows: list[dict]) -> list[list[str]]:
    """Solved runs and median processor seconds of both methods, for each kind of problem."""
    lines = [["problem", "`options-hard` solved", "K as it should be", "seconds", "`options-exact` solved", "seconds"]]
    kinds = [
        ("known options, " + kind, lambda row, kind=kind: row.get("kind") == kind, NUM_OPTIONS) for kind in ACTIONS
    ]
    counts = sorted({row["count"] for row in rows if row["part"] == "messages"})
    kinds += [(f"{n} messages", lambda row, n=n: row.get("count") == n, n) for n in counts]
    for name, mine, K in kinds:
        cells = [name]
        for method in ("options-hard", "options-exact"):
            found = [row for row in rows if mine(row) and row.get("method") == method]
            solved = f"{sum(row['solved'] for row in found)} of {len(found)}" if found else "–"
            right = f"{sum(row['num_options'] == K for row in found)} of {len(found)}"
            seconds = f"{median(row['seconds'] for row in found):.1f}" if found else "–"
            cells += [solved, right, seconds] if method == "options-hard" else [solved, seconds]
        if cells[1] != "–":
            lines.append(cells)
    return lines


def start_comparison(rows: list[dict]) -> list[list[str]]:
    """Both starts on each task of the suite, seed by seed."""
    lines = [["task", "seed", "nats a step, default", "hard", "accuracy, default", "hard", "options, default", "hard"]]
    paired: dict[tuple[str, int], dict[str, dict]] = {}
    for row in rows:
        if row["part"] == "starts":
            paired.setdefault((row["task"], row["seed"]), {})[row["start"]] = row
    for (task, seed), pair in sorted(paired.items()):
        cells = [task, str(seed)]
        for key, form in (("held_out_log_likelihood", ".3f"), ("accuracy", ".3f"), ("used_options", "d")):
            cells += [f"{pair[start][key]:{form}}" for start in ("default", "hard")]
        lines.append(cells)
    return lines


def main(args: Args) -> list[dict]:
    rows = run_grid(run, grid_of(args), args.out, args.processes)
    for table in (comparison(rows), start_comparison(rows)):
        print("\n".join("  ".join(line) for line in table))
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
