"""Processor time a process of data-parallel training, against one process, at the shape of Atari RAM.

Run it with::

    python benchmarks/parallel.py --processes 2

The same training (batches of 128 episodes of 300 steps of 1024 bits, exact guide) runs in one process and under
torchrun in several, one thread each. Prints the median processor time of an update in every process, loading included,
as a share of that of one process, and writes the figures to ``--out``.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import torch
import tyro

from pyro_options.experiments import write_results


@dataclass(frozen=True)
class Args:
    """Compare the processor time of data-parallel training with that of one process."""

    processes: int = 2
    episodes: int = 256
    length: int = 300
    num_options: int = 7
    epochs: int = 40
    """epochs that are measured, after one that is not"""
    out: Path | None = None
    """JSON file to write the figures to"""
    part: Path | None = None
    """folder for the figures of this process; given to the processes that are measured"""


def measure(args: Args, folder: Path) -> None:
    """Trains in this process and the others of torchrun, and writes down what it took."""
    from pyro_options.data import Trajectories
    from pyro_options.discovery import build
    from pyro_options.infer import TrainConfig, Trainer, join_workers, set_seed

    torch.set_num_threads(1)
    set_seed(0)
    ram = torch.randint(0, 256, (args.episodes, args.length, 128), dtype=torch.uint8)
    data = Trajectories(ram, (ram[..., 0] // 64).long(), packed=True)
    parts = build("options-exact", data, num_options=args.num_options)
    workers = join_workers()
    train = TrainConfig(epochs=args.epochs + 1, batch_size=128, progress=False)
    trainer = Trainer(parts.model, parts.guide, data, train, workers=workers)
    trainer.run(1)
    times, take_step = [], trainer.step

    def step(batch: Trajectories) -> float:
        times.append((time.process_time(), time.perf_counter()))
        return take_step(batch)

    trainer.step = step  # type: ignore[method-assign]
    trainer.run(args.epochs)
    processor, wall = (median(after - before for before, after in pairwise(clock)) for clock in zip(*times))
    found = {
        "processor_seconds": processor,
        "seconds": wall,
        "steps": 128 * args.length,
        "gradient_bytes": sum(p.numel() * p.element_size() for p in trainer.parameters()),
    }
    (folder / f"{workers.rank}.json").write_text(json.dumps(found))


def started(args: Args, processes: int) -> list[dict]:
    """The figures of each of several processes."""
    launch = [sys.executable]
    if processes > 1:
        launch += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    sizes = ["--episodes", "--length", "--num-options", "--epochs"]
    values = [args.episodes, args.length, args.num_options, args.epochs]
    given = [str(x) for pair in zip(sizes, values) for x in pair]
    with TemporaryDirectory() as folder:
        command = [*launch, __file__, *given, "--part", folder]
        subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        return [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(processes)]


def main(args: Args) -> dict:
    """Measures one process and several."""
    if args.part is not None:
        measure(args, args.part)
        return {}
    (alone,), several = started(args, 1), started(args, args.processes)
    shares = [one["processor_seconds"] / alone["processor_seconds"] for one in several]
    found = {"processes": args.processes, "alone": alone, "each": several, "shares": shares}
    print(json.dumps(found, indent=1))
    if args.out is not None:
        write_results(args.out, found)
    return found


if __name__ == "__main__":
    main(tyro.cli(Args))
