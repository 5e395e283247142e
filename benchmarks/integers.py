"""CompILE's integer sequences: vocabulary of 5, three segments, Poisson lengths. Run::

    python benchmarks/integers.py
    python benchmarks/integers.py --seeds 0 --epochs 10

Learns from 1000 sequences and scores 200 others. CompILE is told the number of segments and of integers, as in its
paper; its boundaries and skills are those of its own posterior (``compile``), and of exact decoding with its policies
(``compile-skills``, what ``Skills.segment`` does). The options model is told five options (``options-exact``), or
nothing (``options-exact-np``). A boundary is right only at the very step; a symbol is reconstructed if it is the most
probable one of the skill that is on. Every seed is written to ``--out`` at once.
"""

import json
import platform
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import torch
import tyro
from torch import Tensor

from pyro_options import Skills, discover
from pyro_options.data import integer_sequences
from pyro_options.data.integers import Integers
from pyro_options.infer import Exponential, TrainConfig, Trainer, set_seed
from pyro_options.methods import SEGMENT_PRESETS, build
from pyro_options.segmentation import boundaries, boundary_scores


@dataclass(frozen=True)
class Args:
    """Cut sequences of integers into segments."""

    seeds: tuple[int, ...] = tuple(range(5))
    num_episodes: int = 1200
    held_out: int = 200
    num_symbols: int = 5
    epochs: int = 60
    batch_size: int = 64
    learning_rate: float = 1e-2
    decay: float = 0.97  # of the temperature, each epoch, from 1
    floor: float = 0.2  # of the temperature
    entropy_weight: float = 3.0  # keeps two integers from sharing a skill
    entropy_decay: float = 0.95  # each epoch
    out: Path = Path("benchmarks/results/integers.json")


def scores(truth: Integers, cut: int, options: Tensor, starts: Tensor, skills: Skills) -> dict:
    """Boundary and reconstruction accuracy on the sequences after ``cut``."""
    data, true = truth.trajectories[cut:], truth.switches[cut:].clone()
    mask, starts = data.mask, starts.clone()
    true[:, 0] = starts[:, 0] = False  # the first step begins a segment anyway
    where = boundary_scores(starts, true, mask, tolerance=0)
    said = skills.policy(data.states).logits.argmax(-1).gather(-1, options.unsqueeze(-1)).squeeze(-1)
    return {
        "boundary_accuracy": where.recall,
        "boundary_precision": where.precision,
        "whole_sequences": float(((starts == true) | ~mask).all(1).float().mean()),
        "reconstruction": float((said == data.actions)[mask].float().mean()),
        "log_likelihood": skills.log_likelihood(data),
        "num_options": skills.num_options,
    }


def run_compile(args: Args, truth: Integers, cut: int, seed: int) -> dict[str, dict]:
    """CompILE by its own posterior, and by decoding."""
    set_seed(seed)
    train, held = truth.trajectories[:cut], truth.trajectories[cut:]
    method = build("compile", train, num_options=args.num_symbols, **SEGMENT_PRESETS["integers"])
    config = TrainConfig(
        epochs=args.epochs,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        temperature=Exponential(1.0, args.decay, floor=args.floor),
        entropy_weight=Exponential(args.entropy_weight, args.entropy_decay),
        seed=seed,
        device="cpu",
        progress=False,
    )
    Trainer(method.model, method.guide, train, config).run()
    skills = method.model.to_skills(method.guide.weights.mean_log_weights())
    decoded = skills.segment(held)
    return {
        "compile": scores(truth, cut, *method.guide.segment(held), skills),
        "compile-skills": scores(truth, cut, decoded.options, boundaries(decoded.options, held.mask), skills),
    }


def run_options(args: Args, truth: Integers, cut: int, seed: int, **config) -> dict:
    """The options model, decoded by Viterbi."""
    train, held = truth.trajectories[:cut], truth.trajectories[cut:]
    skills = discover(train, epochs=args.epochs, seed=seed, device="cpu", progress=False, **config)
    found = skills.segment(held)
    return scores(truth, cut, found.options, boundaries(found.options, held.mask), skills)


def run(args: Args, seed: int) -> list[dict]:
    """Every method on one data set."""
    truth = integer_sequences(args.num_episodes, args.num_symbols, seed=seed)
    cut = args.num_episodes - args.held_out
    start = time.process_time()
    found = run_compile(args, truth, cut, seed)
    seconds = time.process_time() - start
    found["options-exact"] = run_options(args, truth, cut, seed, num_options=args.num_symbols)
    found["options-exact-np"] = run_options(args, truth, cut, seed)
    found["compile"]["processor_seconds"] = seconds
    return [{"method": name, "seed": seed} | figures for name, figures in found.items()]


def main(args: Args) -> list[dict]:
    torch.set_num_threads(1)
    record = {
        "args": {name: value for name, value in asdict(args).items() if name != "out"},
        "versions": {name: version(name) for name in ("torch", "pyro-ppl", "numpy")},
        "python": platform.python_version(),
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict] = []
    for seed in args.seeds:
        rows += run(args, seed)
        for row in rows[-4:]:
            print({key: round(x, 4) if isinstance(x, float) else x for key, x in row.items()}, flush=True)
        args.out.write_text(json.dumps(record | {"runs": rows}, indent=1) + "\n")
    mine = [row for row in rows if row["method"] == "compile"]
    good = sum(row["boundary_accuracy"] >= 0.95 and row["reconstruction"] >= 0.99 for row in mine)
    print(f"compile: {good} of {len(mine)} seeds with 95 % of the boundaries and 99 % of the symbols")
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
