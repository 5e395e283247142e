"""Training steps on Atari RAM from the bytes that are stored to updated parameters, with loading counted. Run it with::

    python benchmarks/ram_steps.py --out out/ram_steps.json

A step takes a random batch of packed episodes. *unpacked* is the same step without the kernel for products of bits,
which unpacks the bytes and multiplies floats. The *floor* is that of ``benchmarks/run.py``: one product of floats that
are ready, a scalar loss, backward, Adam. All alternate in one process; times are minima, in
processor time of one thread.
"""

import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import tyro
from kernels import without
from naive import naive_step
from steps import Shape, floor, trainer
from timing import race

from pyro_options.data import Trajectories, pack_bits
from pyro_options.experiments import write_results
from pyro_options.nn import PackedBits

GUIDES = ("exact", "paper", "relaxed")
VARYING = (1024, 228)  # all bits, and as many as vary in Breakout


@dataclass(frozen=True)
class Args:
    """Time steps on packed states."""

    episodes: int = 128
    steps: int = 300
    rounds: int = 9
    naive_rounds: int = 6
    out: Path | None = None
    """JSON file to write the figures to"""


def contenders(shape: Shape) -> dict[str, Callable[[], object]]:
    """What is timed on one batch, by name."""
    floats = shape.batch()
    packed = Trajectories(pack_bits(floats.states), floats.actions, num_actions=shape.actions, packed=True)
    order = torch.randperm(len(packed))
    found: dict[str, Callable[[], object]] = {
        "floor": floor(shape, floats),
        "loading": lambda: packed.batch(order),
    }

    def unpacked_batch() -> None:
        with without("bit_product"):
            packed.batch(order)

    found["unpacked loading"] = unpacked_batch
    for guide in GUIDES:
        training = trainer(guide, shape, packed)

        def step(training=training) -> None:
            training.step(packed.batch(order))

        def unpacked_step(step=step) -> None:
            with without("bit_product"):
                step()

        found |= {guide: step, f"unpacked {guide}": unpacked_step}
    return found


def errors(shape: Shape, outputs: int = 40) -> dict[str, float]:
    """Largest error of a product and of its gradient, relative to the largest number; in single precision."""
    torch.manual_seed(0)
    packed = torch.randint(0, 256, (shape.episodes * shape.steps, 128), dtype=torch.uint8)
    states = PackedBits(packed, torch.float32)
    exact = states.unpack().double()
    weight, grad = torch.randn(outputs, 1024), torch.randn(len(packed), outputs)

    def both(inputs: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        w = w.clone().requires_grad_()
        value = torch.nn.functional.linear(inputs, w)
        return value.detach(), torch.autograd.grad(value, w, g)[0]

    true = both(exact, weight.double(), grad.double())
    found = {}
    for name, inputs in (("tables", states), ("floats", states.unpack())):
        for what, ours, theirs in zip(("product", "gradient"), both(inputs, weight, grad), true):
            found[f"{what}, {name}"] = float((ours - theirs).abs().max() / theirs.abs().max())
    return found


def main(args: Args) -> dict:
    """Times every step, prints ratios, and writes all."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=UserWarning)
    seconds: dict[str, dict[str, float]] = {}
    ratios: dict[str, dict[str, float]] = {}
    for varying in VARYING:
        shape, name = Shape(args.episodes, args.steps, varying=varying), str(varying)
        runs = contenders(shape)
        seconds[name] = race(runs, args.rounds)
        if varying == max(VARYING):
            amortized = {guide: runs[guide] for guide in ("paper", "relaxed")}
            slow = race(amortized | {"naive": naive_step(shape, shape.batch())}, args.naive_rounds)
            seconds["naive"] = slow
        took = seconds[name]
        ratios[name] = {
            **{f"{guide} / unpacked": took[guide] / took[f"unpacked {guide}"] for guide in GUIDES},
            **{f"{guide} / floor": took[guide] / took["floor"] for guide in GUIDES},
            "loading / exact": took["loading"] / took["exact"],
        }
    for guide in ("paper", "relaxed"):
        ratios["1024"][f"{guide} / naive"] = seconds["naive"][guide] / seconds["naive"]["naive"]
    settings = {name: value for name, value in asdict(args).items() if name != "out"}
    found = {"settings": settings, "ratios": ratios, "seconds": seconds, "errors": errors(Shape(args.episodes))}
    print(json.dumps(found, indent=1))
    if args.out is not None:
        write_results(args.out, found)
    return found


if __name__ == "__main__":
    main(tyro.cli(Args))
