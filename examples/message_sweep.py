"""How often does each guide solve the message task? Seeds × vocabulary sizes × guides, in local processes.

Every run is one call of ``examples/toy_message.py`` with its defaults. Finished runs are kept in ``--out``, so the
sweep resumes where it stopped. The committed results come from::

    python examples/message_sweep.py

It writes ``message_sweep.json`` (every run, and the versions that made it), a table and a figure.
"""

import json
import platform
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

import torch
import toy_message
import tyro
from tqdm import tqdm

from pyro_options import plotting


@dataclass(frozen=True)
class Args:
    """Sweep the message task."""

    guides: tuple[str, ...] = ("relaxed", "exact")
    num_messages: tuple[int, ...] = (2, 4, 6, 8)
    seeds: tuple[int, ...] = tuple(range(10))
    epochs: int | None = None
    """the guide's default"""
    processes: int = 2
    out: Path = Path("examples/results")


def run(guide: str, num_messages: int, seed: int, epochs: int | None) -> dict:
    """One run on one core."""
    torch.set_num_threads(1)
    args = toy_message.Args(num_messages=num_messages, guide=guide, seed=seed, epochs=epochs, progress=False)
    return toy_message.train(args)[1]


def key(result: dict) -> tuple:
    return result["guide"], result["num_messages"], result["seed"]


def table(results: list[dict]) -> str:
    """Successes, options in use and K, by guide and vocabulary size, in Markdown."""
    lines = [
        "| guide | messages | success | used options = messages | K | seconds a run |",
        "|---|---|---|---|---|---|",
    ]
    for guide, n in sorted({key(r)[:2] for r in results}):
        rows = [r for r in results if key(r)[:2] == (guide, n)]
        exact = sum(r["used_options"] == n for r in rows)
        sizes = sorted(r["num_options"] for r in rows)
        seconds = sum(r["seconds"] for r in rows) / len(rows)
        success, total = sum(r["success"] for r in rows), len(rows)
        size = f"{sizes[0]} to {sizes[-1]}"
        lines.append(f"| {guide} | {n} | {success} of {total} | {exact} of {total} | {size} | {seconds:.0f} |")
    for guide in sorted({r["guide"] for r in results}):
        rows = [r for r in results if r["guide"] == guide]
        lines.append(f"| **{guide}** | all | **{sum(r['success'] for r in rows)} of {len(rows)}** | | | |")
    return "\n".join(lines) + "\n"


def figure(results: list[dict], path: Path) -> None:
    """Recovered K against the vocabulary size, as in figure 2 of the paper."""
    guides = sorted({r["guide"] for r in results})
    with plotting.style():
        fig, axes = plotting.plt.subplots(1, len(guides), figsize=(4.2 * len(guides), 3.6), layout="constrained")
        for ax, guide in zip([axes] if len(guides) == 1 else axes, guides):
            rows = [r for r in results if r["guide"] == guide]
            plotting.recovered_options(
                ax, [r["num_messages"] for r in rows], [r["num_options"] for r in rows], [r["success"] for r in rows]
            )
            ax.set_title(f"{guide}: {sum(r['success'] for r in rows)} of {len(rows)} runs succeed")
        fig.savefig(path)
        plotting.plt.close(fig)


def main(args: Args) -> list[dict]:
    """Runs what is missing, then writes table and figure."""
    args.out.mkdir(parents=True, exist_ok=True)
    raw = args.out / "message_sweep.json"
    results = json.loads(raw.read_text())["runs"] if raw.exists() else []
    done = {key(r) for r in results}
    todo = [(g, n, s) for s in args.seeds for g in args.guides for n in args.num_messages if (g, n, s) not in done]
    packages = ("torch", "pyro-ppl", "numpy", "gymnasium")
    meta = {
        "command": "python examples/message_sweep.py",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }
    with ProcessPoolExecutor(args.processes, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(run, *job, args.epochs) for job in todo]
        for future in tqdm(as_completed(futures), total=len(futures), unit="run"):
            results.append(future.result())
            results.sort(key=key)
            raw.write_text(json.dumps(meta | {"runs": results}, indent=1) + "\n")
    (args.out / "message_sweep.md").write_text(table(results))
    figure(results, args.out / "message_sweep.png")
    print(table(results))
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
