"""Recovery of five known options from episodes of 20 to 80 steps, discrete and continuous actions. Run it with::

    python benchmarks/recovery.py
    python benchmarks/recovery.py --seeds 0 --kinds discrete

Runs ``discover`` with its defaults on 200 episodes and evaluates on 40 others: the share of steps that agree with the
true options under the best one-to-one matching, and the same for Viterbi decoding with the true model (the oracle). A
run passes with five options in use and an accuracy of at least 0.95. Every run is written to ``--out`` as soon as it is
done, and finished runs are not repeated.
"""

import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

import tyro

from pyro_options.data import synthetic_options
from pyro_options.discovery import discover
from pyro_options.experiments import run_grid
from pyro_options.skills import boundaries, boundary_scores, label_scores


@dataclass(frozen=True)
class Args:
    """Recover known options."""

    seeds: tuple[int, ...] = tuple(range(10))
    kinds: tuple[Literal["discrete", "continuous"], ...] = ("discrete", "continuous")
    num_options: int = 5
    num_episodes: int = 240
    held_out: int = 40
    epochs: int | None = None
    method: str = "options-exact"
    processes: int = 1
    """runs at a time, each on one thread"""
    out: Path = Path("benchmarks/results/recovery.json")


def run(
    kind: str, seed: int, num_options: int, num_episodes: int, held_out: int, epochs: int | None, method: str
) -> dict:
    """Discovers and evaluates options of one data set, both with the same seed."""
    actions = num_options + 1 if kind == "discrete" else None
    truth = synthetic_options(num_options, num_episodes, num_actions=actions, seed=seed)
    data, cut = truth.trajectories, num_episodes - held_out
    start = time.perf_counter()
    skills = discover(data[:cut], method, epochs=epochs, seed=seed, device="cpu", progress=False, trust=False)
    seconds = time.perf_counter() - start
    held, true = data[cut:], truth.options[cut:]
    found = skills.segment(held)
    where = boundary_scores(boundaries(found.options, held.mask), boundaries(true, held.mask), held.mask)
    used, scores = found.used_options, label_scores(found.options, true, held.mask)
    return {
        "found_options": skills.num_options,
        "used_options": used,
        "accuracy": scores.accuracy,
        "oracle_accuracy": label_scores(truth.best_options()[cut:], true, held.mask).accuracy,
        "boundary_f1": where.f1,
        "exact_log_likelihood": found.log_likelihood_per_step,
        "passed": used == num_options and scores.accuracy >= 0.95,
        "seconds": seconds,
    }


def main(args: Args) -> list[dict]:
    sizes = {name: getattr(args, name) for name in ("num_options", "num_episodes", "held_out", "epochs", "method")}
    pairs = product(args.seeds, args.kinds)
    grid = {f"{kind}, seed {seed}": {"kind": kind, "seed": seed} | sizes for seed, kind in pairs}
    rows = run_grid(run, grid, args.out, args.processes)
    for kind in args.kinds:
        mine = [row for row in rows if row["kind"] == kind]
        print(f"{kind}: {sum(row['passed'] for row in mine)} of {len(mine)} runs find the {args.num_options} options")
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
