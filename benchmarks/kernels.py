"""The share of a whole training step that each compiled kernel saves, against the same code in torch. Run it with::

    python benchmarks/kernels.py
    python benchmarks/kernels.py --threads 1 --json out/kernels.json

A kernel that saves less than 5 % of a step for all methods that use it should be removed. Steps with and without a
kernel alternate in one process. The segment marginal is not part of a training step of CompILE, whose guide samples
segments: it is timed as in evaluation, likelihood and posterior of a batch.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from steps import Shape
from timing import race

from pyro_options.data import Trajectories, pack_bits, synthetic_options
from pyro_options.discovery import build
from pyro_options.experiments import write_results
from pyro_options.infer import TrainConfig, Trainer
from pyro_options.kernels.registry import KERNELS
from pyro_options.skills import to_skills

#: the share of a step that a kernel must save in at least one workload
BAR = 0.05


@dataclass(frozen=True)
class Args:
    """Time every kernel."""

    threads: int = torch.get_num_threads()
    rounds: int = 9
    json: Path | None = None
    """write the numbers here"""


@contextmanager
def without(name: str) -> Iterator[None]:
    """Disables a kernel, as if it could not be imported."""
    kernel = KERNELS[name]
    module = kernel.module
    kernel.__dict__["module"] = None
    try:
        yield
    finally:
        kernel.__dict__["module"] = module


def step_of(method: str, data, num_options: int) -> Callable[[], object]:
    """A whole training step on one batch."""
    both = build(method, data, num_options=num_options, skip_constant=False)
    trainer = Trainer(both.model, both.guide, data, TrainConfig(progress=False, device="cpu"))
    return lambda: trainer.step(data)


def batch_step_of(method: str, data, num_options: int) -> Callable[[], object]:
    """A whole training step on a shuffled batch, with what it takes to make the batch."""
    both = build(method, data, num_options=num_options, skip_constant=False)
    trainer = Trainer(both.model, both.guide, data, TrainConfig(progress=False, device="cpu"))
    order = torch.randperm(len(data))
    return lambda: trainer.step(data.batch(order))


def segmentation_of(data, num_options: int) -> Callable[[], object]:
    """Likelihood and posterior of CompILE's skills."""
    both = build("compile", data, num_options=num_options, skip_constant=False)
    skills = to_skills(both.model, both.guide)
    return lambda: (skills.log_likelihood(data), skills.segment(data, "posterior"))


def workloads() -> dict[str, tuple[Callable[[], object], tuple[str, ...]]]:
    """Name -> (a step, the kernels that it uses)."""
    atari, many, short = Shape().batch(), Shape(actions=18).batch(), Shape(16).batch()
    ram = Trajectories(pack_bits(atari.states), atari.actions, num_actions=4, packed=True)
    small = synthetic_options(5, 64, num_actions=6, seed=0).trajectories
    exact, paper = ("path_marginal", "stick_draw", "log_choice"), ("path_draw", "lstm", "log_choice")
    relaxed = ("path_steps", "lstm", "log_choice")
    return {
        "exact, Atari, 4 actions": (step_of("options-exact", atari, 7), exact),
        "exact, Atari, 18 actions": (step_of("options-exact", many, 7), exact),
        "exact, packed Atari, 4 actions": (batch_step_of("options-exact", ram, 7), ("bit_product",)),
        "exact, small": (step_of("options-exact", small, 5), exact),
        "paper, Atari, 4 actions": (step_of("options-paper", atari, 7), paper),
        "paper, Atari, 18 actions": (step_of("options-paper", many, 7), paper),
        "paper, packed Atari, 4 actions": (batch_step_of("options-paper", ram, 7), ("bit_product",)),
        "paper, small": (step_of("options-paper", small, 5), paper),
        "relaxed, Atari, 4 actions": (step_of("options", atari, 7), relaxed),
        "relaxed, small": (step_of("options", small, 5), relaxed),
        "sticky, Atari, 4 actions": (step_of("options-sticky", atari, 7), ("chain_marginal",)),
        "sticky, small": (step_of("options-sticky", small, 5), ("chain_marginal",)),
        "CompILE, Atari, 4 actions": (step_of("compile", short, 8), ("lstm",)),
        "segmentation by CompILE, Atari": (segmentation_of(short, 8), ("segment_marginal",)),
    }


def main(args: Args) -> dict[str, float]:
    torch.set_num_threads(args.threads)
    warnings.filterwarnings("ignore", category=UserWarning)
    saved: dict[str, float] = {}
    for work, (step, kernels) in workloads().items():

        def torch_only(name: str, step=step) -> None:
            with without(name):
                step()

        contenders = {"compiled": step} | {name: lambda name=name: torch_only(name) for name in kernels}
        times = race(contenders, args.rounds)
        for name in kernels:
            saved[f"{name}: {work}"] = 1 - times["compiled"] / times[name]
            figures = f"{1e3 * times['compiled']:8.1f} ms with it, {1e3 * times[name]:8.1f} ms without"
            print(f"{name:18s}{work:34s}{saved[f'{name}: {work}']:7.1%} of a step saved ({figures})", flush=True)
    for name in KERNELS:
        best = max(value for key, value in saved.items() if key.startswith(f"{name}: "))
        print(f"{name:18s}saves {best:.1%} at best: {'stays' if best >= BAR else 'GOES'}")
    if args.json is not None:
        write_results(args.json, {"threads": args.threads, "saved": saved})
    return saved


if __name__ == "__main__":
    main(tyro.cli(Args))
