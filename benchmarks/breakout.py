"""Is growth as good as the best fixed K? Exact held-out likelihood on Breakout demonstrations. Run it with::

    python benchmarks/breakout.py --data breakout_expert.npz
    python benchmarks/breakout.py --out benchmarks/results/breakout_scripted.json   # scripted expert
    python benchmarks/breakout.py --data breakout_expert.npz --only "K = 4"    # a single row

Compares growth with the exact guide, fixed K (1 is behaviour cloning) and growth with the paper's guide, with the same
budget. The seed also selects the held-out episodes. Every run is written to ``--out`` as soon as it is done, and
finished runs are not repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import torch
import tyro

from pyro_options.data import Trajectories
from pyro_options.discovery import discover
from pyro_options.envs import atari_demonstrations, load_atari
from pyro_options.errors import choice
from pyro_options.experiments import run_grid

GROWTH = "growth, exact guide"


@dataclass(frozen=True)
class Args:
    """Compare growth with fixed numbers of options."""

    data: Path | None = None
    """npz file with arrays ram, action and length; by default the scripted expert"""
    cache: Path = Path("out")
    """folder for the episodes of the scripted expert"""
    num_episodes: int = 1000
    epsilon: float = 0.05
    """probability of a random action of the expert; with 0.01, nine of ten held-out states also occur in training"""
    only: tuple[str, ...] = ()
    """rows to run, by default all"""
    fixed: tuple[int, ...] = (1, 2, 4, 8, 16)
    """values of a fixed K to compare with"""
    paper: bool = True
    """also grow with the paper's guide"""
    held_out: float = 0.2
    epochs: int | None = None
    seeds: tuple[int, ...] = (0,)
    processes: int = 1
    """runs at a time, each on one thread"""
    out: Path = Path("benchmarks/results/breakout.json")
    progress: bool = True


def load(file: Path | None, cache: Path, num_episodes: int, epsilon: float, progress: bool = False) -> Trajectories:
    """Demonstrations from a file, or of the scripted expert."""
    if file is not None:
        return load_atari(file)[:num_episodes]
    return atari_demonstrations("Breakout", num_episodes, cache=cache, epsilon=epsilon, progress=progress)


def methods(args: Args) -> dict[str, tuple[str, dict]]:
    """Name of a row -> (method, its settings)."""
    growth = {"max_options": 32}
    named = {GROWTH: ("options-exact", growth)}
    for K in args.fixed:
        named[f"K = {K}"] = ("bc", {}) if K == 1 else ("options-exact", {"num_options": K})
    if args.paper:
        named["growth, paper's guide"] = ("options-paper", growth)
    return named


def grid(args: Args) -> dict[str, dict]:
    """All runs, seed by seed."""
    about = {"num_episodes": args.num_episodes, "held_out": args.held_out, "epochs": args.epochs}
    about |= {"demonstrations": args.data.name} if args.data is not None else {"epsilon": args.epsilon}
    rows = methods(args)
    for row in args.only:
        choice(row, "row", rows)
    runs = product(args.seeds, args.only or rows)
    return {
        f"{row}, seed {seed}": {"row": row, "method": rows[row][0], "config": rows[row][1], "seed": seed} | about
        for seed, row in runs
    }


def overlap(data: Trajectories, held: Trajectories) -> dict[str, float]:
    """Share of the held-out states and episodes that also occur in the training set; the game is deterministic.

    If it is large, the held-out likelihood says little about unseen states.
    """

    def rows(states: torch.Tensor) -> list[bytes]:
        return [row.numpy().tobytes() for row in states]

    steps, episodes = set(rows(data.stored[data.mask])), set(rows(data.stored))
    seen = [row in steps for row in rows(held.stored[held.mask])]
    same = [row in episodes for row in rows(held.stored)]
    return {"states": sum(seen) / len(seen), "episodes": sum(same) / len(same)}


def run(
    row: str,
    method: str,
    config: dict,
    seed: int,
    num_episodes: int,
    held_out: float,
    epochs: int | None,
    demonstrations: str = "",
    epsilon: float = 0.0,
    *,
    file: Path | None,
    cache: Path,
) -> dict:
    """One call of ``discover``, evaluated on the held-out episodes."""
    data, held = load(file, cache, num_episodes, epsilon).split(held_out, seed)
    skills = discover(data, method, epochs=epochs, seed=seed, progress=False, trust=False, device="cpu", **config)
    segmentation = skills.segment(held)
    return {
        "num_options": skills.num_options,
        "used_options": segmentation.used_options,
        "exact_log_likelihood": segmentation.log_likelihood_per_step,
        "train_log_likelihood": skills.metadata["log_likelihood"]["train"],
        "mean_segment_length": segmentation.mean_length,
        "mean_duration": segmentation.mean_duration,
        "usage": segmentation.usage().tolist(),
        "updates": skills.metadata["updates"],
        "seconds": skills.metadata["seconds"],
        "options_over_time": skills.metadata["history"]["num_options"],
        "held_out_seen_in_training": overlap(data, held),
    }


def verdict(rows: Sequence[dict]) -> list[str]:
    """Difference of growth to each other row on the same held-out episodes, in nats per step."""
    score = {(row["row"], row["seed"]): row["exact_log_likelihood"] for row in rows}
    lines = []
    for name in dict.fromkeys(row["row"] for row in rows if row["row"] != GROWTH):
        gains = [score[GROWTH, seed] - value for (row, seed), value in score.items() if row == name]
        lines.append(f"growth - {name}: " + ", ".join(f"{gain:+.4f}" for gain in gains))
    return lines


def main(args: Args) -> list[dict]:
    load(args.data, args.cache, args.num_episodes, args.epsilon, args.progress)  # fills the cache for all processes
    job = partial(run, file=args.data, cache=args.cache)
    rows = run_grid(job, grid(args), args.out, args.processes, args.progress)
    for row in rows:
        figures = f"K = {row['num_options']}, {row['used_options']} in use, {row['seconds']:.0f} s"
        print(f"{row['name']:32s} {row['exact_log_likelihood']:.4f} nats per step, {figures}")
    if not args.only:
        print("\n".join(verdict(rows)))
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
