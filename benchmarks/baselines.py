"""Baselines on five known options: DDO against the exact guide, and recovery by CompILE-NP. Run it with::

    python benchmarks/baselines.py
    python benchmarks/baselines.py --seeds 0 --arms compile-np --out /tmp/baselines.json

Data as in ``recovery.py``: episodes of 20 to 80 steps with six discrete actions, 200 for training and 40 for
evaluation. DDO and the exact guide are given K = 5 and compared in exact held-out log-likelihood per step; of several
restarts, the one with the best training ELBO continues. CompILE-NP infers K. An option counts as found if one skill is
active in more than half of its steps, and more than half of that skill's steps belong to it. Every run is written to
``--out`` as soon as it is done, and finished runs are not repeated.
"""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import tyro

from pyro_options.data import synthetic_options
from pyro_options.discovery import discover
from pyro_options.experiments import run_grid
from pyro_options.skills import found_options, label_scores

NUM_OPTIONS = 5

#: arguments of discover for each method
SETTINGS: dict[str, dict[str, Any]] = {
    "ddo": {"num_options": NUM_OPTIONS, "restarts": 5},
    "options-exact": {"num_options": NUM_OPTIONS, "restarts": 5},
    # Segment length as in the data, and enough segments for the longest episodes.
    "compile-np": {
        "num_segments": 10,
        "segment_length": 10.0,
        "lstm_size": 16,
        "encoder_hidden": (16, 16),
        "epochs": 40,
    },
}


@dataclass(frozen=True)
class Args:
    """Compare baselines on known options."""

    seeds: tuple[int, ...] = tuple(range(10))
    arms: tuple[Literal["ddo", "options-exact", "compile-np"], ...] = ("ddo", "options-exact", "compile-np")
    num_episodes: int = 240
    held_out: int = 40
    epochs: int | None = None
    processes: int = 1
    out: Path = Path("benchmarks/results/baselines.json")


def run(arm: str, seed: int, num_episodes: int, held_out: int, config: dict) -> dict:
    """Discovers and evaluates options of one data set, both with the same seed.

    :param config: arguments of ``discover``
    """
    truth = synthetic_options(NUM_OPTIONS, num_episodes, num_actions=NUM_OPTIONS + 1, seed=seed)
    data, cut = truth.trajectories, num_episodes - held_out
    given = {key: tuple(x) if isinstance(x, list) else x for key, x in config.items()}  # JSON has no tuples
    skills = discover(data[:cut], arm, seed=seed, device="cpu", progress=False, trust=False, **given)
    held, true = data[cut:], truth.options[cut:]
    segmentation = skills.segment(held)
    return {
        "num_options": skills.num_options,
        "used_options": segmentation.used_options,
        "found_options": found_options(segmentation.options, true, held.mask),
        "accuracy": label_scores(segmentation.options, true, held.mask).accuracy,
        "log_likelihood": segmentation.log_likelihood_per_step,
    }


def summary(rows: list[dict]) -> list[str]:
    """Lines with the measured differences and counts."""
    by = {(row["arm"], row["seed"]): row for row in rows}
    both = sorted(seed for arm, seed in by if arm == "ddo" and ("options-exact", seed) in by)
    gaps = [by["ddo", s]["log_likelihood"] - by["options-exact", s]["log_likelihood"] for s in both]
    lines = [f"ddo - options-exact, seed {seed}: {gap:+.4f} nats per step, held out" for seed, gap in zip(both, gaps)]
    if gaps:
        close = sum(abs(gap) <= 0.01 for gap in gaps)
        lines.append(f"within 0.01: {close} of {len(gaps)}; mean gap {sum(gaps) / len(gaps):+.4f}")
    found = [row["found_options"] for row in rows if row["arm"] == "compile-np"]
    if found:
        lines.append(
            f"compile-np finds at least 4 of {NUM_OPTIONS}: {sum(n >= 4 for n in found)} of {len(found)} seeds"
        )
    return lines


def main(args: Args) -> list[dict]:
    more = {} if args.epochs is None else {"epochs": args.epochs}
    sizes = {"num_episodes": args.num_episodes, "held_out": args.held_out}
    grid = {
        f"{arm}, seed {seed}": {"arm": arm, "seed": seed, "config": SETTINGS[arm] | more} | sizes
        for seed, arm in product(args.seeds, args.arms)
    }
    rows = run_grid(run, grid, args.out, args.processes)
    print("\n".join(summary(rows)))
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
