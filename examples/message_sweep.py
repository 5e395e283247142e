"""How often does each guide solve the message task? Seeds × vocabulary sizes × guides, in local processes.

Every run is one call of ``examples/toy_message.py`` with its defaults, or with one thing changed (``--variants``).
Finished runs are kept in ``--out``, so the sweep resumes where it stopped. The committed results come from::

    python examples/message_sweep.py
    python examples/message_sweep.py --name message_sweep_usage --guides relaxed --num-messages 2 4 6 8 --variants usage
    python examples/message_sweep.py --name message_ablation --guides relaxed --num-messages 8 --seeds 0 1 \\
        --variants random-births equal-rates independent-heads trajectory-entropy no-entropy evidence

It writes ``NAME.json`` (every run, and the versions that made it), a table and, for several vocabulary sizes, a figure.
"""

import json
import platform
import shlex
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import toy_message
import tyro
from tqdm import tqdm

from pyro_options import plotting
from pyro_options.storage import write_json

#: what a variant changes of the defaults of ``toy_message.py``
USAGE = {"rule": "usage", "epochs": 300}  # the paper's rule, with split births
VARIANTS: dict[str, dict] = {
    "default": {},
    "usage": USAGE,
    "random-births": USAGE | {"birth": "random"},
    "equal-rates": USAGE | {"weights_learning_rate": 5e-3},
    "independent-heads": USAGE | {"independent_heads": True},
    "trajectory-entropy": USAGE | {"entropy_per": "trajectory"},
    "no-entropy": USAGE | {"entropy_weight": 0.0},
    "evidence": {"epochs": 300},
}


@dataclass(frozen=True)
class Args:
    """Sweep the message task."""

    name: str = "message_sweep"
    """of the files to write"""
    variants: tuple[str, ...] = ("default",)
    """keys of VARIANTS"""

    guides: tuple[str, ...] = ("relaxed", "exact")
    num_messages: tuple[int, ...] = tuple(range(2, 13))
    seeds: tuple[int, ...] = tuple(range(10))
    epochs: int | None = None
    """by default those of the variant, or of the guide"""
    processes: int = 2
    out: Path = Path("examples/results")


def run(variant: str, guide: str, num_messages: int, seed: int, epochs: int | None) -> dict:
    """One run on one core, as ``toy_message.py`` does it."""
    given = {"num_messages": num_messages, "guide": guide, "seed": seed, "progress": False} | VARIANTS[variant]
    if epochs is not None:
        given["epochs"] = epochs
    start = time.process_time()
    results = toy_message.train(toy_message.Args(**given))[1]
    return {"variant": variant, "processor_seconds": time.process_time() - start} | results


def key(result: dict) -> tuple:
    return result.get("variant", "default"), result["guide"], result["num_messages"], result["seed"]


def label(result: dict) -> str:
    variant, guide = key(result)[:2]
    return guide if variant == "default" else f"{guide}, {variant}"


def table(results: list[dict]) -> str:
    """Successes, options in use and K, by guide and vocabulary size, in Markdown."""
    lines = [
        "| guide | messages | success | used options = messages | K |",
        "|---|---|---|---|---|",
    ]
    for guide, n in sorted({(label(r), r["num_messages"]) for r in results}):
        rows = [r for r in results if (label(r), r["num_messages"]) == (guide, n)]
        exact = sum(r["used_options"] == n for r in rows)
        sizes = sorted(r["num_options"] for r in rows)
        success, total = sum(r["success"] for r in rows), len(rows)
        size = f"{sizes[0]} to {sizes[-1]}"
        lines.append(f"| {guide} | {n} | {success} of {total} | {exact} of {total} | {size} |")
    for guide in sorted({label(r) for r in results}):
        rows = [r for r in results if label(r) == guide]
        lines.append(f"| **{guide}** | all | **{sum(r['success'] for r in rows)} of {len(rows)}** | | |")
    return "\n".join(lines) + "\n"


def figure(results: list[dict], path: Path) -> None:
    """Recovered K against the vocabulary size, as in figure 2 of the paper."""
    guides = sorted({label(r) for r in results})
    with plotting.style():
        fig, axes = plotting.plt.subplots(1, len(guides), figsize=(4.2 * len(guides), 3.6), layout="constrained")
        for ax, guide in zip([axes] if len(guides) == 1 else axes, guides):
            rows = [r for r in results if label(r) == guide]
            plotting.recovered_options(
                ax, [r["num_messages"] for r in rows], [r["num_options"] for r in rows], [r["success"] for r in rows]
            )
            ax.set_title(f"{guide}: {sum(r['success'] for r in rows)} of {len(rows)} runs succeed")
        fig.savefig(path)
        plotting.plt.close(fig)


def main(args: Args) -> list[dict]:
    """Runs what is missing, then writes table and figure."""
    args.out.mkdir(parents=True, exist_ok=True)
    raw = args.out / f"{args.name}.json"
    results = json.loads(raw.read_text())["runs"] if raw.exists() else []
    done = {key(r) for r in results}
    todo = [job for job in product(args.variants, args.guides, args.num_messages, args.seeds) if job not in done]
    todo.sort(key=lambda job: job[-1])  # whole rounds of seeds, so that a partial sweep is a fair one
    packages = ("torch", "pyro-ppl", "numpy", "gymnasium")
    meta = {
        "command": shlex.join(["python", "examples/message_sweep.py", *sys.argv[1:]]),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }
    with ProcessPoolExecutor(args.processes, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(run, *job, args.epochs) for job in todo]
        for future in tqdm(as_completed(futures), total=len(futures), unit="run"):
            results.append(future.result())
            results.sort(key=key)
            write_json(raw, meta | {"runs": results}, indent=1)
    (args.out / f"{args.name}.md").write_text(table(results))
    if len({r["num_messages"] for r in results}) > 1:
        figure(results, args.out / f"{args.name}.png")
    print(table(results))
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
