"""One long episode beside many short ones: time a step and memory, against equally long episodes. Run it with::

    python benchmarks/ragged.py

``discover`` with its defaults and a given number of epochs on one episode of 20,000 steps beside 500 of 50, and on
eight of 20,000, in turn. ``ratio`` compares the seconds a step of training, with its growth checks; ``whole_ratio``
those of the whole call, with statistics at the end whose time hardly depends on the data. Memory is relative to the
bytes of all steps: that of the arrays that hold the ragged data (``stored``), and the peak of a process that makes them
and trains one epoch on them, less the peak of one with a hundredth of them (``peak``).
"""

import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
import tyro
from memory import _peak
from timing import race

from pyro_options.data import Trajectories
from pyro_options.discovery import discover, method_config
from pyro_options.discovery.assembly import assemble, make_plan
from pyro_options.experiments import write_results
from pyro_options.infer import Trainer, set_seed


@dataclass(frozen=True)
class Args:
    """Time and memory of ragged data."""

    long: int = 20_000
    """steps of a long episode"""
    short: int = 50
    """steps of a short episode"""
    count: int = 500
    """short episodes"""
    epochs: int = 10
    rounds: int = 1
    threads: int = 1
    """with one, times are processor time, which other processes affect less"""
    wide: int = 1000
    """numbers in a state, for memory"""
    peak_of: str | None = None
    """internal: print the peak memory of this process after training on ``all`` or on ``few`` of the data"""
    out: Path = Path("benchmarks/results/ragged.json")


def demonstrations(lengths: list[int], state_dim: int = 6) -> Trajectories:
    """Two policies in turn, ten steps each, in flat arrays."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(sum(lengths), state_dim, generator=generator)
    first = torch.arange(len(states)) // 10 % 2 == 0
    actions = torch.where(first, states[:, 0] > 0, states[:, 1] > 0).long()
    return Trajectories.from_flat(states, actions, lengths, num_actions=2, copy=False)


def data_bytes(data: Trajectories) -> int:
    """Bytes of the states and actions of all steps."""
    return sum(part.nbytes for steps in (data.state_steps, data.given_actions()) for part in steps.chunks())


def stored_bytes(data: Trajectories) -> int:
    """Bytes of the memory that holds them."""
    stores = data.state_steps, data.given_actions()
    held = {array.untyped_storage().data_ptr(): array for steps in stores for array in steps.arrays}
    return sum(array.untyped_storage().nbytes() for array in held.values())


def train(data: Trajectories, epochs: int) -> None:
    """What ``discover`` does before it computes statistics."""
    plan = make_plan(data, method_config("options-exact").complete(), epochs=epochs, progress=False, device="cpu")
    set_seed(0)
    made = assemble(data, plan.config, plan.train)
    Trainer(made.model, made.guide, plan.train_on, plan.train, made.growth, plan.judge).run()


def seconds_a_step(sets: dict[str, Trajectories], epochs: int, rounds: int) -> dict[str, float]:
    """Seconds a step and epoch of training and of the whole call; processor time with one thread."""
    contenders = {f"train/{name}": partial(train, data, epochs) for name, data in sets.items()}
    call = partial(discover, epochs=epochs, seed=0, progress=False, device="cpu")
    contenders |= {f"discover/{name}": partial(call, data) for name, data in sets.items()}
    best = race(contenders, rounds)
    return {name: best[name] / epochs / sets[name.partition("/")[2]].num_steps for name in best}


def peak_megabytes(args: Args, share: str) -> float:
    """Peak memory of a new process that trains one epoch on ``all`` or ``few`` of the ragged data, with wide states."""
    sizes = [f"--{name}={getattr(args, name)}" for name in ("long", "short", "count", "wide")]
    command = [sys.executable, __file__, *sizes, f"--peak-of={share}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    return float(done.stdout.split()[-1])


def main(args: Args) -> dict:
    lengths = [args.long] + [args.short] * args.count
    if args.peak_of:
        few = [args.long // 100] + [args.short] * (args.count // 100)
        data = demonstrations(lengths if args.peak_of == "all" else few, args.wide)
        discover(data, epochs=1, num_options=2, held_out=0.2, progress=False, device="cpu")
        print(_peak())
        return {}
    sets = {"ragged": demonstrations(lengths), "long": demonstrations([args.long] * 8)}
    before = torch.get_num_threads()
    torch.set_num_threads(args.threads)
    step = seconds_a_step(sets, args.epochs, args.rounds)
    torch.set_num_threads(before)
    wide = demonstrations(lengths, args.wide)
    peak, base = (peak_megabytes(args, share) for share in ("all", "few"))
    record = {
        "microseconds_a_step": {name: round(1e6 * value, 3) for name, value in step.items()},
        "ratio": step["train/ragged"] / step["train/long"],
        "whole_ratio": step["discover/ragged"] / step["discover/long"],
        "stored": stored_bytes(wide) / data_bytes(wide),
        "peak": (peak - base) * 2**20 / data_bytes(wide),
        "data_megabytes": data_bytes(wide) / 2**20,
        "args": {name: str(value) for name, value in asdict(args).items()},
    }
    write_results(args.out, record)
    print(
        f"time a step: {record['ratio']:.2f} of that of long episodes ({record['whole_ratio']:.2f} of the whole call)"
    )
    print(f"memory: stored {record['stored']:.2f}, peak of training {record['peak']:.2f} of the data")
    return record


if __name__ == "__main__":
    main(tyro.cli(Args))
