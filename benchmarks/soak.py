"""20,000 SVI steps with 200 births and removals: checks that neither memory nor the optimizer's state leaks.

Run it with::

    python benchmarks/soak.py

K moves between 1 and 8 by one birth or removal every 100 steps; the first fifth is warm-up. It writes
``benchmarks/results/soak.json``: resident memory after every 100 steps, and the number of stale optimizer entries.
"""

import gc
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from pyro_options.discovery import build
from pyro_options.envs import message_demonstrations
from pyro_options.experiments import write_results
from pyro_options.growth import grow, num_components, prune
from pyro_options.infer import TrainConfig, Trainer, set_seed


@dataclass(frozen=True)
class Args:
    """Long training with many births and removals."""

    steps: int = 20_000
    moves: int = 200
    method: str = "options-exact"
    seed: int = 0
    out: Path = Path("benchmarks/results/soak.json")


def resident_bytes() -> int:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def stale_entries(trainer: Trainer) -> int:
    """Number of optimizer entries without a parameter in the modules, or with another shape than their parameter."""
    own = {id(parameter): parameter for parameter in trainer.parameters()}
    listed = [p for group in trainer.optimizer.param_groups for p in group["params"]]
    stale = sum(id(p) not in own for p in [*listed, *trainer.optimizer.state])
    for parameter, state in trainer.optimizer.state.items():
        stale += sum(value.dim() > 0 and value.shape != parameter.shape for value in state.values())
    return stale


def main(args: Args) -> dict:
    torch.set_num_threads(1)
    data = message_demonstrations(4, 64, args.seed)
    set_seed(args.seed)
    parts = build(args.method, data, hidden=(8,), rule="evidence")
    config = TrainConfig(batch_size=len(data), progress=False, device="cpu", seed=args.seed)
    trainer = Trainer(parts.model, parts.guide, data, config, None)
    modules, batch = [parts.model, parts.guide], next(data.minibatches(len(data)))
    memory, sizes, stale, moves, growing = [], [], 0, 0, True
    every = args.steps // args.moves
    while trainer.num_steps < args.steps:
        trainer.step(batch)
        if trainer.num_steps % every:
            continue
        K = num_components(modules)
        growing = K == 1 or (growing and K < 8)
        if growing:
            grow(modules, 1, trainer.optimizer)
        else:
            prune(modules, [moves % K], trainer.optimizer)
        moves += 1
        stale += stale_entries(trainer)
        gc.collect()
        memory.append(resident_bytes())
        sizes.append(num_components(modules))
    warm = memory[: max(1, len(memory) // 5)]
    record = {
        "steps": trainer.num_steps,
        "moves": moves,
        "growth_of_memory": max(memory[len(warm) :], default=max(warm)) / max(warm) - 1,
        "stale_optimizer_entries": stale,
        "finite": all(bool(p.isfinite().all()) for p in trainer.parameters()),
        "resident_megabytes": [round(value / 2**20, 1) for value in memory],
        "num_options": sizes,
    }
    write_results(args.out, record)
    print({key: value for key, value in record.items() if not isinstance(value, list)})
    return record


if __name__ == "__main__":
    record = main(tyro.cli(Args))
    sys.exit(record["growth_of_memory"] > 0.05 or record["stale_optimizer_entries"] > 0 or not record["finite"])
