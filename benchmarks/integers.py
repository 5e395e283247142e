"""CompILE's integer sequences: vocabulary of 5, three segments, Poisson lengths. Run it with::

    python benchmarks/integers.py
    python benchmarks/integers.py --seeds 0 --epochs 10 --out /tmp/integers.json

Trains on 1000 sequences and evaluates on 200 others. CompILE is given the number of segments and of integers, as in its
paper. Its boundaries and skills are those of its amortized posterior and, as ``decoded``, those of exact decoding with
its policies (``Skills.segment``); of several restarts, the one with the best training ELBO continues. The options model
is given K = 5 (``options-exact``), or infers it (``options-exact-np``). A boundary must be at the exact step; a symbol
counts as reconstructed if it is the most probable action of the active skill. Every run is written to ``--out`` as soon
as it is done, and finished runs are not repeated.
"""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

import tyro
from torch import Tensor

from pyro_options.data import Integers, Trajectories, integer_sequences
from pyro_options.discovery import PRESETS, build, discover
from pyro_options.experiments import run_grid
from pyro_options.infer import Constant, TrainConfig, Trainer, best_start, restart_seed, set_seed
from pyro_options.skills import Skills, boundaries, boundary_scores, to_skills

NUM_SYMBOLS = 5


@dataclass(frozen=True)
class Args:
    """Segment sequences of integers."""

    seeds: tuple[int, ...] = tuple(range(10))
    methods: tuple[Literal["compile", "options-exact", "options-exact-np"], ...] = (
        "compile",
        "options-exact",
        "options-exact-np",
    )
    num_episodes: int = 1200
    held_out: int = 200
    epochs: int = 40
    restarts: int = 4
    beginning: int = 16  # epochs of each restart of CompILE, before the best one continues
    processes: int = 1
    out: Path = Path("benchmarks/results/integers.json")


def scores(truth: Integers, cut: int, options: Tensor, starts: Tensor, skills: Skills) -> dict:
    """Boundary and reconstruction accuracy on the sequences from index ``cut`` on."""
    data, true = truth.trajectories[cut:], truth.switches[cut:].clone()
    mask, starts = data.mask, starts.clone()
    true[:, 0] = starts[:, 0] = False  # the first step always begins a segment
    where = boundary_scores(starts, true, mask, tolerance=0)
    said = skills.policy(data.states).logits.argmax(-1).gather(-1, options.unsqueeze(-1)).squeeze(-1)
    return {
        "boundary_accuracy": where.recall,
        "boundary_precision": where.precision,
        "boundary_f1": where.f1,
        "whole_sequences": float(((starts == true) | ~mask).all(1).float().mean()),
        "reconstruction": float((said == data.actions)[mask].float().mean()),
    }


def train_compile(data: Trajectories, epochs: int, restarts: int, beginning: int, seed: int) -> Trainer:
    """Trains CompILE: the best of several restarts, to the end."""
    config = TrainConfig(
        epochs=epochs,
        batch_size=64,
        learning_rate=1e-2,
        temperature=Constant(1.0),  # with annealing, boundaries often become fixed before the skills are distinct
        seed=seed,
        device="cpu",
        progress=False,
    )

    def begin(number: int) -> Trainer:
        set_seed(restart_seed(seed, number))
        method = build("compile", data, num_options=NUM_SYMBOLS, **PRESETS["compile-integers"])
        return Trainer(method.model, method.guide, data, config)

    trainer = best_start(begin, restarts, beginning)
    trainer.run()
    return trainer


def run(method: str, seed: int, num_episodes: int, held_out: int, epochs: int, restarts: int, beginning: int) -> dict:
    """Trains and evaluates one method on one data set, both with the same seed."""
    truth = integer_sequences(num_episodes, NUM_SYMBOLS, seed=seed)
    cut = num_episodes - held_out
    train, held = truth.trajectories[:cut], truth.trajectories[cut:]
    if method == "compile":
        trained = train_compile(train, epochs, restarts, beginning, seed)
        skills = to_skills(trained.model, trained.guide)
    else:
        told = {"num_options": NUM_SYMBOLS, "restarts": restarts} if method == "options-exact" else {}
        skills = discover(train, epochs=epochs, seed=seed, device="cpu", progress=False, trust=False, **told)
    decoded = skills.segment(held)
    found = scores(truth, cut, decoded.options, boundaries(decoded.options, held.mask), skills)
    if method == "compile":
        found = scores(truth, cut, *trained.guide.segment(held), skills) | {"decoded": found}
    used = decoded.used_options
    figures = {"log_likelihood": skills.log_likelihood(held), "num_options": skills.num_options, "used_options": used}
    return found | figures


def summary(rows: list[dict]) -> list[str]:
    """A line per method: the number of seeds with at least 95 % in every score, and the lowest scores."""
    lines = []
    for name in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == name]
        good = sum(min(row["boundary_accuracy"], row["boundary_f1"], row["reconstruction"]) >= 0.95 for row in mine)
        least = [min(row[key] for row in mine) for key in ("boundary_accuracy", "boundary_f1", "reconstruction")]
        figures = "boundary accuracy {:.3f}, F1 {:.3f}, reconstruction {:.3f}".format(*least)
        lines.append(f"{name}: {good} of {len(mine)} seeds with 95 % of boundaries and symbols; least {figures}")
    return lines


def main(args: Args) -> list[dict]:
    sizes = {name: getattr(args, name) for name in ("num_episodes", "held_out", "epochs", "restarts", "beginning")}
    pairs = product(args.seeds, args.methods)
    grid = {f"{method}, seed {seed}": {"method": method, "seed": seed} | sizes for seed, method in pairs}
    rows = run_grid(run, grid, args.out, args.processes)
    print("\n".join(summary(rows)))
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
