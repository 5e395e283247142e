"""Anonymous memory of ``discover`` on a folder of mapped demonstrations: Atari RAM, more than it may hold at once.

Run it with::

    python benchmarks/mapped_memory.py --steps 10000000 --epochs 1

It writes random bytes of RAM, with actions that depend on them, to a folder (unless it is there already), discovers
options in it in a process of its own, and watches the anonymous memory (RssAnon: what cannot be dropped and read from
the file again) of that process. Prints figures, and writes them to ``--out``.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import tyro

from pyro_options.data import save_episodes
from pyro_options.experiments import write_results

_DISCOVER = """
import json, sys, time, resource
from pyro_options import discover
from pyro_options.data import Trajectories
start = time.perf_counter()
data = Trajectories.load(sys.argv[1])
loaded = time.perf_counter() - start
skills = discover(data, held_out=0.1, epochs=int(sys.argv[2]), progress=False)
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "loading_seconds": loaded,
    "seconds": time.perf_counter() - start,
    "processor_seconds": used.ru_utime + used.ru_stime,
    "training_seconds": skills.metadata["seconds"],
    "updates": skills.metadata["updates"],
    "num_options": skills.num_options,
    "log_likelihood": skills.metadata["log_likelihood"],
}))
"""


@dataclass(frozen=True)
class Args:
    """Measure the anonymous memory of discover on mapped demonstrations."""

    steps: int = 10_000_000
    length: int = 300
    """steps of an episode"""
    epochs: int = 1
    folder: Path = Path(tempfile.gettempdir(), "pyro_options-mapped")
    """where the demonstrations are written, 129 bytes a step"""
    out: Path | None = None
    """JSON file to write the figures to"""


def episodes(args: Args) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """RAM whose first bytes decide on the action, which of them changes every 50 steps."""
    random = np.random.default_rng(0)
    for _ in range(args.steps // args.length):
        ram = random.integers(0, 256, (args.length, 128), np.uint8)
        which = random.integers(0, 3, args.length // 50 + 1).repeat(50)[: args.length]
        yield ram, ram[np.arange(args.length), which] // 64


def anonymous_bytes(pid: int) -> int:
    """RssAnon of a process; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)


def main(args: Args) -> dict:
    """Writes the demonstrations, discovers options in them, and watches."""
    start = time.perf_counter()
    if not args.folder.exists():
        save_episodes(args.folder, episodes(args), num_actions=4, packed=True)
    writing, peak = time.perf_counter() - start, 0
    command = [sys.executable, "-c", _DISCOVER, args.folder, str(args.epochs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, anonymous_bytes(process.pid))
            time.sleep(0.02)
        assert process.stdout is not None and process.returncode == 0
        found = json.loads(process.stdout.read())
    size = sum(path.stat().st_size for path in args.folder.iterdir())
    found = {"anonymous_bytes": peak, "folder_bytes": size, "writing_seconds": writing} | found
    settings = {name: asdict(args)[name] for name in ("steps", "length", "epochs")}
    print(json.dumps(settings | found, indent=1))
    if args.out is not None:
        write_results(args.out, settings | found)
    return found


if __name__ == "__main__":
    main(tyro.cli(Args))
