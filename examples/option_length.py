"""What do longer options cost? Held-out likelihood against segment length, for several termination costs.

Trained for likelihood alone, options terminate at about every other step of Breakout. ``termination_cost`` penalizes
each termination by some nats (0 is the paper's model), for longer options at a lower likelihood. Run it with::

    python examples/option_length.py                                    # demonstrations of the scripted expert
    python examples/option_length.py --data breakout_expert.npz

It writes ``NAME.json`` (every run) and ``NAME.png`` to ``--out``.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

import atari_discover
import tyro
from matplotlib.ticker import LogLocator, ScalarFormatter

from pyro_options import viz
from pyro_options.data import Trajectories
from pyro_options.discovery import discover
from pyro_options.experiments import write_results
from pyro_options.skills import IN_USE


@dataclass(frozen=True)
class Args:
    """Trade likelihood for longer options."""

    name: str = "option_length"
    """of the files to write"""
    data: Path | None = None
    """npz file with arrays ram, action and length; by default the scripted expert"""
    game: str = "Breakout"
    num_episodes: int = 300
    """episodes for training and evaluation together"""
    costs: tuple[float, ...] = (0.0, 0.1, 0.2, 0.35, 0.5, 1.0)
    """nats per termination"""
    seeds: tuple[int, ...] = (0,)
    num_options: int | None = 8
    """fixed K, so that only the cost differs"""
    epochs: int | None = None
    held_out: float = 0.3
    out: Path = Path("examples/results")
    progress: bool = True


def run(args: Args, data: Trajectories, held: Trajectories, cost: float, seed: int) -> dict:
    """Discovers and evaluates skills for one cost and seed."""
    config = {"num_options": args.num_options, "termination_cost": cost}
    skills = discover(data, epochs=args.epochs, seed=seed, device="cpu", progress=args.progress, trust=False, **config)
    segmentation = skills.segment(held)
    summary = skills.summarize(held, segmentation)
    return {
        "termination_cost": cost,
        "seed": seed,
        "used_options": int((summary.usage >= IN_USE).sum()),
        "exact_log_likelihood": segmentation.log_likelihood_per_step,
        "mean_segment_length": segmentation.mean_length,
        "mean_duration": segmentation.mean_duration,
        "termination_rate": float((summary.usage * summary.termination_rate).sum()),
        "epochs": len(skills.metadata["history"]["objective"]),
        "seconds": skills.metadata["seconds"],
    }


def figure(runs: list[dict], path: Path) -> None:
    """Likelihood against the length of segments, and against the steps between terminations."""
    labels = {"mean_segment_length": "steps until another option", "mean_duration": "steps between terminations"}
    with viz.style():
        fig, axes = viz.plt.subplots(1, 2, figsize=(viz.PAGE, 3), layout="constrained", sharey=True)
        for ax, (key, label) in zip(axes, labels.items()):
            for seed in sorted({r["seed"] for r in runs}):
                rows = sorted((r for r in runs if r["seed"] == seed), key=lambda r: r["termination_cost"])
                x, y = [r[key] for r in rows], [r["exact_log_likelihood"] for r in rows]
                ax.plot(x, y, "o-", color=viz.option_color(seed), label=f"seed {seed}")
                for row, a, b in zip(rows, x, y):
                    ax.annotate(f"{row['termination_cost']:g}", (a, b), (5, 5), textcoords="offset points", fontsize=7)
            ax.set(xlabel=label, xscale="log")
            ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.xaxis.set_major_formatter(ScalarFormatter())
            ax.minorticks_off()
        axes[0].set_ylabel("held-out nats per step")
        axes[0].set_title("Numbers: nats that a termination costs")
        axes[1].legend()
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> list[dict]:
    """Runs all costs and seeds, then writes the figure."""
    args.out.mkdir(parents=True, exist_ok=True)
    source = atari_discover.Args(data=args.data, game=args.game, num_episodes=args.num_episodes, progress=args.progress)
    data, held = atari_discover.load(source)[: args.num_episodes].split(args.held_out)
    given = asdict(args) | {"data": None if args.data is None else args.data.name}
    meta = {"args": {name: value for name, value in given.items() if name != "out"}}
    runs: list[dict] = []
    for seed in args.seeds:
        for cost in args.costs:
            runs.append(run(args, data, held, cost, seed))
            print({key: round(value, 4) for key, value in runs[-1].items()})
            write_results(args.out / f"{args.name}.json", meta | {"runs": runs})
    figure(runs, args.out / f"{args.name}.png")
    return runs


if __name__ == "__main__":
    main(tyro.cli(Args))
