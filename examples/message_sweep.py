"""How often does each guide solve the message task? A sweep over seeds, vocabulary sizes and guides.

Every run is that of ``examples/toy_message.py``, with its defaults, with one setting changed, or with the paper's own
settings (``--variants paper``).
Finished runs are saved in ``--out`` and not repeated. The committed results come from::

    python examples/message_sweep.py
    python examples/message_sweep.py --name message_sweep_usage --guides paper --num-messages 2 4 6 8 --variants usage
    python examples/message_sweep.py --name message_ablation --guides paper --num-messages 8 --seeds 0 1 \\
        --variants random-births equal-rates independent-heads trajectory-entropy no-entropy evidence

It writes ``NAME.json`` (every run, with package versions), a table and, for several vocabulary sizes, a figure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import tyro
from studies.message_run import MessageRun

from pyro_options import viz
from pyro_options.experiments import run_grid

#: settings of :class:`MessageRun` that a variant changes
USAGE = {"rule": "usage", "epochs": 300}  # the paper's rule, with split births and our other settings
VARIANTS: dict[str, dict] = {
    "default": {},
    "paper": {"preset": "paper", "epochs": None},  # the paper's own settings, all of them
    "usage": USAGE,
    "random-births": USAGE | {"birth": "random"},
    "equal-rates": USAGE | {"weights_learning_rate": 5e-3},
    "independent-heads": USAGE | {"independent_heads": True},
    "trajectory-entropy": USAGE | {"entropy_per": "trajectory"},
    "no-entropy": USAGE | {"entropy_weight": 0.0},
    "fixed-entropy": USAGE | {"entropy_rate": 1.0},
    "evidence": {"epochs": 300},
    "point": {"point": True},
    **{f"delta-{x}": USAGE | {"delta": x} for x in (0.25, 0.75)},
    **{f"check-{steps}": USAGE | {"check_every": steps} for steps in (40, 160)},
    **{f"alpha-{x:g}": USAGE | {"alpha": x} for x in (0.1, 10.0)},
    **{f"temperature-{rate}": USAGE | {"temperature_rate": rate} for rate in (0.98, 1.0)},
}


@dataclass(frozen=True)
class Args:
    """Sweep the message task."""

    name: str = "message_sweep"
    """of the files to write"""
    variants: tuple[str, ...] = ("default",)
    """keys of VARIANTS"""

    guides: tuple[str, ...] = ("relaxed", "exact", "paper")
    num_messages: tuple[int, ...] = tuple(range(2, 13))
    seeds: tuple[int, ...] = tuple(range(10))
    epochs: int | None = None
    """by default those of the variant, or of MessageRun"""
    processes: int = 2
    out: Path = Path("examples/results")


def run(variant: str, guide: str, num_messages: int, seed: int, **more) -> dict:
    """One run, with the defaults of ``toy_message.py``."""
    given = {"num_messages": num_messages, "guide": guide, "seed": seed}
    return MessageRun(**given | VARIANTS[variant] | more).run()[1]


def entry(variant: str, guide: str, num_messages: int, seed: int, epochs: int | None = None) -> dict[str, dict]:
    """Name -> settings of one run."""
    settings: dict = {"variant": variant, "guide": guide, "num_messages": num_messages, "seed": seed}
    if epochs is not None:
        settings["epochs"] = epochs
    return {f"{variant}, {guide}, {num_messages} messages, seed {seed}": settings}


def grid(args: Args) -> dict[str, dict]:
    """All runs, seed by seed, so that an unfinished sweep has all guides on the same seeds."""
    jobs: dict[str, dict] = {}
    for seed, variant, guide, n in product(args.seeds, args.variants, args.guides, args.num_messages):
        jobs |= entry(variant, guide, n, seed, args.epochs)
    return jobs


def label(result: dict) -> str:
    return result["guide"] if result["variant"] == "default" else f"{result['guide']}, {result['variant']}"


def table(results: list[dict]) -> str:
    """A Markdown table of successes, options in use and K, by guide and vocabulary size."""
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


def figure(results: list[dict], path: Path, title: Callable[[dict], str] = label) -> None:
    """Recovered K against the vocabulary size, as in figure 2 of the paper.

    :param title: panel that a run belongs to
    """
    panels = sorted({title(r) for r in results})
    with viz.style():
        fig, axes = viz.plt.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.6), layout="constrained")
        for ax, name in zip([axes] if len(panels) == 1 else axes, panels):
            rows = [r for r in results if title(r) == name]
            viz.recovered_options(
                ax, [r["num_messages"] for r in rows], [r["num_options"] for r in rows], [r["success"] for r in rows]
            )
            ax.set_title(f"{name}: {sum(r['success'] for r in rows)} of {len(rows)} succeed")
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> list[dict]:
    """Trains missing runs, then writes the table and the figure."""
    results = run_grid(run, grid(args), args.out / f"{args.name}.json", args.processes)
    (args.out / f"{args.name}.md").write_text(table(results))
    if len({r["num_messages"] for r in results}) > 1:
        figure(results, args.out / f"{args.name}.png")
    print(table(results))
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
