"""Baselines on five known options: DDO beside the exact guide, and the skills that CompILE-NP finds. Run::

    python benchmarks/baselines.py
    python benchmarks/baselines.py --seeds 0 --arms compile-np

Episodes of 20 to 80 steps with six discrete actions, as in ``recovery.py``: 200 to learn from, 40 others to score.
DDO and the exact guide are told K = 5, and compared in exact log-likelihood per step of the 40. CompILE-NP is not told
K. An option counts as found if one skill is on in more than half of its steps, and it in more than half of the skill's.
Every run is written to ``--out`` at once, and a run that is already there is not made again.
"""

import json
import platform
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import torch
import tyro

from pyro_options import discover
from pyro_options.data import synthetic_options
from pyro_options.segmentation import found_options, label_scores

NUM_OPTIONS = 5

#: what discover is told besides the name
SETTINGS: dict[str, dict] = {
    "ddo": {"num_options": NUM_OPTIONS},
    "options-exact": {"num_options": NUM_OPTIONS},
    "compile-np": {
        "num_segments": 7,
        "segment_length": 10.0,
        "lstm_size": 16,
        "encoder_hidden": (16, 16),
        "batch_size": 10,
        "epochs": 50,
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
    out: Path = Path("benchmarks/results/baselines.json")


def run(args: Args, arm: str, seed: int) -> dict:
    """One data set, one discovery, both by the same seed."""
    truth = synthetic_options(NUM_OPTIONS, args.num_episodes, num_actions=NUM_OPTIONS + 1, seed=seed)
    data, cut = truth.trajectories, args.num_episodes - args.held_out
    start = time.process_time()
    settings = SETTINGS[arm] | ({} if args.epochs is None else {"epochs": args.epochs})
    skills = discover(data[:cut], arm, seed=seed, device="cpu", progress=False, **settings)
    seconds = time.process_time() - start
    held, true = data[cut:], truth.options[cut:]
    segmentation = skills.segment(held)
    return {
        "arm": arm,
        "seed": seed,
        "num_options": skills.num_options,
        "used_options": int((segmentation.usage() >= 0.01).sum()),
        "found_options": found_options(segmentation.options, true, held.mask),
        "accuracy": label_scores(segmentation.options, true, held.mask).accuracy,
        "log_likelihood": segmentation.log_likelihood_per_step,
        "processor_seconds": seconds,
    }


def summary(rows: list[dict]) -> list[str]:
    """The figures of the bars, one a line."""
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
    torch.set_num_threads(1)
    record = {
        "args": {name: value for name, value in asdict(args).items() if name not in ("out", "seeds", "arms")},
        "settings": SETTINGS,
        "versions": {name: version(name) for name in ("torch", "pyro-ppl", "numpy")},
        "python": platform.python_version(),
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict] = json.loads(args.out.read_text())["runs"] if args.out.exists() else []
    done = {(row["arm"], row["seed"]) for row in rows}
    for seed in args.seeds:
        for arm in args.arms:
            if (arm, seed) in done:
                continue
            rows.append(run(args, arm, seed))
            print({key: round(x, 4) if isinstance(x, float) else x for key, x in rows[-1].items()}, flush=True)
            args.out.write_text(json.dumps(record | {"runs": rows}, indent=1) + "\n")
    print("\n".join(summary(rows)))
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
