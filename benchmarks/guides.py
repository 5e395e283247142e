"""Do the amortized guides hold on Atari? Exact held-out likelihood of every guide, with K = 8 and with growth. Run::

    python benchmarks/guides.py --data breakout_expert.npz
    python benchmarks/guides.py --game Freeway --out benchmarks/results/guides_freeway.json   # scripted expert

Every row has linear policies, one start and the same number of updates; the seed also selects the held-out episodes.
Every run is written to ``--out`` as soon as it is done, and finished runs are not repeated.
"""

from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean

import tyro

from pyro_options.data import Trajectories
from pyro_options.discovery import discover
from pyro_options.envs import atari_demonstrations, load_atari
from pyro_options.experiments import run_grid

CLONE, EXACT = "one policy", "exact"

#: the paper's settings, all of them; 1715 epochs are 12,000 updates with 800 of 1000 episodes
PAPER = {"the paper's settings": {"preset": "paper", "epochs": 1715}}


@dataclass(frozen=True)
class Args:
    """Compare guides by the exact likelihood of held-out episodes."""

    data: Path | None = None
    """npz file with arrays ram, action and length; by default the scripted expert of the game"""
    game: str = "Breakout"
    cache: Path = Path("out")
    """folder for the episodes of the scripted expert"""
    num_episodes: int = 1000
    epsilon: float = 0.05
    """probability of a random action of the scripted expert"""
    guides: tuple[str, ...] = (EXACT, "relaxed", "relaxed-marginal", "paper")
    """keys of GUIDES"""
    fixed: bool = True
    """train eight options"""
    growth: bool = True
    """grow K"""
    from_one: bool = False
    """also grow K from one option"""
    rules: tuple[str, ...] = ()
    """other rules to grow K by, with the births of each"""
    paper: bool = False
    """also train with the paper's own settings, for 12,000 updates of 128 episodes"""
    num_options: int = 8
    max_options: int = 32
    held_out: float = 0.2
    epochs: int = 60
    seeds: tuple[int, ...] = tuple(range(5))
    processes: int = 1
    """runs at a time, each on one thread"""
    out: Path = Path("benchmarks/results/guides_breakout.json")
    progress: bool = True


def load(args: Args) -> Trajectories:
    """Demonstrations from a file, or of the scripted expert."""
    if args.data is not None:
        return load_atari(args.data)[: args.num_episodes]
    return atari_demonstrations(args.game, args.num_episodes, cache=args.cache, epsilon=args.epsilon)


def rows(args: Args) -> dict[str, dict]:
    """Name of a row -> settings of ``discover``."""
    named: dict[str, dict] = {}
    if args.fixed:
        named[CLONE] = {"method": "bc"}
        for guide in args.guides:
            named[f"K = {args.num_options}, {guide}"] = {"guide": guide, "num_options": args.num_options}
    if args.growth:
        for guide in args.guides:
            named[f"growth, {guide}"] = {"guide": guide, "max_options": args.max_options}
    if args.from_one:
        for guide in args.guides:
            named[f"growth from K = 1, {guide}"] = {
                "guide": guide,
                "max_options": args.max_options,
                "initial_options": 1,
            }
    for rule, guide in product(args.rules, args.guides):
        named[f"growth by {rule}, {guide}"] = {"guide": guide, "rule": rule, "max_options": args.max_options}
    return named | (PAPER if args.paper else {})


def grid(args: Args) -> dict[str, dict]:
    """All runs, seed by seed."""
    source = args.game if args.data is None else args.data.name
    about = {"demonstrations": source, "num_episodes": args.num_episodes, "held_out": args.held_out}
    named = rows(args)
    return {
        f"{row}, seed {seed}": {"row": row, "config": named[row], "seed": seed, "epochs": args.epochs} | about
        for seed, row in product(args.seeds, named)
    }


def run(
    row: str,
    config: dict,
    seed: int,
    epochs: int,
    demonstrations: str,
    num_episodes: int,
    held_out: float,
    *,
    args: Args,
) -> dict:
    """One call of ``discover``, evaluated on the held-out episodes.

    :param about: settings that the file records and ``args`` has as well
    """
    data, held = load(args).split(held_out, seed)
    same = {"hidden": (), "restarts": 1, "epochs": epochs, "seed": seed}
    skills = discover(data, **same | config, progress=False, trust=False, device="cpu")
    found = skills.segment(held)
    return {
        "num_options": skills.num_options,
        "used_options": found.used_options,
        "exact_log_likelihood": found.log_likelihood_per_step,
        "train_log_likelihood": skills.metadata["log_likelihood"]["train"],
        "mean_segment_length": found.mean_length,
        "usage": found.usage().tolist(),
        "objective": skills.metadata["history"]["objective"][
            :: max(1, len(skills.metadata["history"]["objective"]) // 60)
        ],
        "updates": skills.metadata["updates"],
        "seconds": skills.metadata["seconds"],
    }


def table(results: list[dict]) -> str:
    """A Markdown table: likelihood of every row, its difference to the exact guide's and to one policy's, paired."""
    score = {(r["row"], r["seed"]): r["exact_log_likelihood"] for r in results}
    lines = [
        "| row | nats per held-out step | minus exact | minus one policy | K | in use |",
        "|---|---|---|---|---|---|",
    ]
    for row in dict.fromkeys(r["row"] for r in results):
        own = [r for r in results if r["row"] == row]
        twin = f"{row.split(',')[0]}, {EXACT}"
        gaps = ["" if row == CLONE else _gap(row, twin, score), "" if row == CLONE else _gap(row, CLONE, score)]
        likelihood = mean(r["exact_log_likelihood"] for r in own)
        sizes = [_span([r[key] for r in own]) for key in ("num_options", "used_options")]
        lines.append(" | ".join([f"| {row}", f"{likelihood:.3f} ({len(own)} seeds)", *gaps, *sizes]) + " |")
    return "\n".join(lines) + "\n"


def _gap(row: str, other: str, score: dict[tuple[str, int], float]) -> str:
    gaps = [score[row, s] - score[other, s] for r, s in score if r == row and (other, s) in score]
    return f"{mean(gaps):+.3f} ({min(gaps):+.3f} to {max(gaps):+.3f})" if gaps and row != other else ""


def _span(values: list[int]) -> str:
    return str(min(values)) if min(values) == max(values) else f"{min(values)} to {max(values)}"


def main(args: Args) -> list[dict]:
    load(args)  # fills the cache for all processes
    results = run_grid(partial(run, args=args), grid(args), args.out, args.processes, args.progress)
    text = table(results)
    args.out.with_suffix(".md").write_text(text)
    print(text)
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
