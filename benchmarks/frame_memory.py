"""Peak memory of discovery on frames: 84 x 84 x 4 bytes, 200 episodes of 100 steps, with the small CNN.

Run: python benchmarks/frame_memory.py
"""

import json
import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import tyro

from pyro_options import discover
from pyro_options.data import Trajectories
from pyro_options.discovery.trust import input_warnings, state_reveals
from pyro_options.experiments import write_results

ROOT = Path(__file__).parents[1]
GIGABYTE = 10**9


@dataclass(frozen=True)
class Args:
    """Make frames, discover options in them, and report the peak of the resident memory."""

    episodes: int = 200
    steps: int = 100
    size: int = 84
    channels: int = 4
    epochs: int = 2
    seed: int = 0
    out: Path = ROOT / "benchmarks/results/frame_memory.json"


def peak() -> int:
    """The largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(args: Args) -> dict:
    """One discovery with its growth check and its record of trust; memory after each part."""
    rng, shape = np.random.default_rng(args.seed), (args.episodes, args.steps, args.size, args.size, args.channels)
    before = peak()
    frames = rng.integers(0, 256, shape, dtype=np.uint8)
    actions = rng.integers(0, 4, shape[:2])
    data = Trajectories(frames, actions)
    loaded, start = peak(), time.perf_counter()
    skills = discover(data, network="cnn", epochs=args.epochs, seed=args.seed, held_out=0.05, progress=False)
    discovered = peak()
    segmentation = skills.segment(data)
    state_reveals(data, segmentation, skills.policy.network)
    input_warnings(data)
    limit = 2 * frames.nbytes + GIGABYTE
    found = {
        "args": {name: value for name, value in asdict(args).items() if not isinstance(value, Path)},
        "data_bytes": frames.nbytes,
        "peak_bytes": {"imports": before, "data": loaded, "discover": discovered, "trust": peak()},
        "limit_bytes": limit,
        "within": peak() <= limit,
        "seconds": time.perf_counter() - start,
    }
    write_results(args.out, found)
    print(json.dumps(found, indent=1))
    return found


if __name__ == "__main__":
    main(tyro.cli(Args))
