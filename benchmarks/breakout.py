"""Does growth find as much as the best fixed K? Breakout demonstrations, exact held-out likelihood. Run it with::

    python benchmarks/breakout.py --data breakout_expert.npz
    python benchmarks/breakout.py --cache scripted.npz --out scripted.json     # the scripted expert plays, once
    python benchmarks/breakout.py --data breakout_expert.npz --only "K = 4"    # one run of them

The same budget for growth with the exact guide, for fixed K (1 is behaviour cloning), and for growth with the relaxed
guide. Every run is written to ``--out`` as soon as it is done; runs that are there already are not repeated.
"""

import json
import platform
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

import torch
import tyro

from pyro_options import discover
from pyro_options.data import Trajectories
from pyro_options.envs import atari_demonstrations, load_atari
from pyro_options.errors import choice


@dataclass(frozen=True)
class Args:
    """Compare growth with fixed numbers of options."""

    data: Path | None = None
    """npz file with arrays ram, action and length; by default the scripted expert plays"""
    cache: Path | None = None
    """file to keep the episodes of the scripted expert in"""
    num_episodes: int = 1000
    epsilon: float = 0.05
    """chance of a random action of the scripted expert: with 0.01 nine of ten held-out states were seen in training"""
    only: tuple[str, ...] = ()
    """names of the runs to do now, by default all of them"""
    fixed: tuple[int, ...] = (1, 2, 4, 8, 16)
    """numbers of options to compare with"""
    relaxed: bool = True
    """also grow with the relaxed guide"""
    held_out: float = 0.2
    epochs: int | None = None
    seed: int = 0
    processes: int = 2
    """runs at a time, each on one thread"""
    out: Path = Path("benchmarks/results/breakout.json")
    progress: bool = True


def load(args: Args) -> Trajectories:
    """The demonstrations."""
    if args.data is not None:
        return load_atari(args.data)[: args.num_episodes]
    if args.cache is not None and args.cache.exists():
        return load_atari(args.cache)[: args.num_episodes]
    data = atari_demonstrations(
        "Breakout", args.num_episodes, seed=args.seed, epsilon=args.epsilon, progress=args.progress
    )
    if args.cache is not None:
        data.save(args.cache)
    return data


def jobs(args: Args) -> dict[str, tuple[str, dict]]:
    """Name -> method and its settings."""
    growth = {"max_options": 32}
    named = {"growth, exact guide": ("options-exact", growth)}
    for K in args.fixed:
        named[f"K = {K}"] = ("bc", {}) if K == 1 else ("options-exact", {"num_options": K})
    if args.relaxed:
        named["growth, relaxed guide"] = ("options", growth)
    return named


def overlap(data: Trajectories, held: Trajectories) -> dict[str, float]:
    """How much of what is held out is in the training set too: a game that starts alike goes on alike.

    Where much of it is, a held-out likelihood says little about states that were never seen.
    """

    def rows(states: torch.Tensor) -> list[bytes]:
        return [row.numpy().tobytes() for row in states]

    steps, episodes = set(rows(data.stored[data.mask])), set(rows(data.stored))
    seen = [row in steps for row in rows(held.stored[held.mask])]
    same = [row in episodes for row in rows(held.stored)]
    return {"states": sum(seen) / len(seen), "episodes": sum(same) / len(same)}


def run(args: Args, data: Trajectories, held: Trajectories, method: str, config: dict) -> dict:
    """One discovery, judged on the held-out episodes."""
    skills = discover(data, method, epochs=args.epochs, seed=args.seed, progress=args.progress, device="cpu", **config)
    segmentation = skills.segment(held)
    return {
        "num_options": skills.num_options,
        "used_options": int((segmentation.usage() >= 0.01).sum()),
        "exact_log_likelihood": segmentation.log_likelihood_per_step,
        "train_log_likelihood": skills.metadata["log_likelihood"]["train"],
        "mean_segment_length": segmentation.mean_length,
        "mean_duration": segmentation.mean_duration,
        "usage": segmentation.usage().tolist(),
        "epochs": len(skills.metadata["history"]["elbo"]),
        "seconds": skills.metadata["seconds"],
        "growth_epochs": skills.metadata["history"]["growth_epochs"],
        "held_out_seen_in_training": overlap(data, held),
    }


def verdict(runs: dict[str, dict]) -> dict[str, float]:
    """How growth compares, in nats per step."""
    score = {name: row["exact_log_likelihood"] for name, row in runs.items()}
    best = [value for name, value in score.items() if name.startswith("K = ") and name != "K = 1"]
    grown, result = score.get("growth, exact guide"), {}
    if grown is not None and "K = 1" in score:
        result["gain over K = 1"] = grown - score["K = 1"]
    if grown is not None and best:
        result["gain over the best fixed K"] = grown - max(best)
    return result


def one(args: Args, name: str) -> dict:
    """A run in a process of its own."""
    torch.set_num_threads(1)
    data, held = load(args).split(args.held_out, args.seed)
    return run(args, data, held, *jobs(args)[name])


def main(args: Args) -> dict[str, dict]:
    which = ("fixed", "relaxed", "only", "cache", "processes", "out", "progress")  # of no consequence to a run
    settings = {name: value for name, value in asdict(args).items() if name not in which}
    settings["data"] = "scripted expert" if args.data is None else args.data.name
    if args.data is not None:
        del settings["epsilon"]
    old = json.loads(args.out.read_text()) if args.out.exists() else {}
    runs: dict[str, dict] = old["runs"] if old.get("args") == settings else {}
    record = {
        "args": settings,
        "versions": {name: version(name) for name in ("torch", "pyro-ppl", "numpy", "ale-py")},
        "python": platform.python_version(),
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for name in args.only:
        choice(name, "run", jobs(args))
    names = [name for name in args.only or jobs(args) if name not in runs]
    if args.data is None and args.cache is not None:
        load(args)  # once, before several processes want it
    with ProcessPoolExecutor(args.processes, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(one, args, name): name for name in names}
        for future in as_completed(futures):
            name = futures[future]
            runs[name] = row = future.result()
            args.out.write_text(json.dumps(record | {"verdict": verdict(runs), "runs": runs}, indent=1) + "\n")
            print(
                f"{name:24s} {row['exact_log_likelihood']:.4f} nats per step, K = {row['num_options']}, "
                f"{row['used_options']} in use, {row['seconds']:.0f} s",
                flush=True,
            )
    for name, gain in verdict(runs).items():
        print(f"{name}: {gain:+.4f} nats per step")
    return runs


if __name__ == "__main__":
    main(tyro.cli(Args))
