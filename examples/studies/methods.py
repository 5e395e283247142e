"""Experiments that compare methods, with the code of ``compare.py``."""

from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import compare
from matplotlib.ticker import MaxNLocator

from pyro_options import viz

from .experiment import Experiment, Grid, Preset
from .summary import cell, groups, interval, markdown
from .tasks import LENGTHS, TASKS

#: colour of each method; ``compile`` and ``compile-np`` are one method with given and inferred K
COLORS = {
    name: viz.option_color(i) for i, name in enumerate(("options-paper", "options-exact", "ddo", "compile", "bc"))
}
COLORS |= {"compile-np": COLORS["compile"]}


@dataclass(frozen=True)
class Size:
    """The size of an experiment."""

    num_episodes: int
    held_out: int
    num_seeds: int
    num_options: tuple[int, ...]
    epochs: int | None = None
    methods: tuple[str, ...] = ("options-paper", "options-exact", "ddo", "compile", "compile-np", "bc")
    lengths: tuple[int, ...] = LENGTHS
    preset: str | None = None  # of discover


METHODS: dict[Preset, Size] = {
    "smoke": Size(4, 2, 1, (2,), 1),
    "quick": Size(24, 12, 2, (2, 8), 15),
    "full": Size(150, 50, 5, (2, 4, 8, 16)),
    "paper": Size(1000, 200, 10, (3, 5, 7, 9, 11, 13), preset="paper"),
}
#: values of K as in the paper's table 2; ``None`` is inferred
TABLE = {"options-paper": (7,), "options-exact": (7, None), "ddo": (11,), "compile": (7,), "compile-np": (None,)}
TRAJECTORIES: dict[Preset, Size] = {
    "smoke": Size(4, 2, 1, (), 1, lengths=(50, 150)),
    "quick": Size(16, 8, 1, (), 8),
    "full": Size(100, 20, 3, ()),
    "paper": Size(1000, 100, 5, (), preset="paper"),
}


def grid(tasks: tuple[str, ...], size: Size, num_options: dict[str, tuple[int | None, ...]]) -> Grid:
    """All runs of all tasks, methods and values of K, seed by seed."""
    jobs: Grid = {}
    for seed, task, method in product(range(size.num_seeds), tasks, num_options):
        used = replace(TASKS[task].size, num_episodes=size.num_episodes, held_out=size.held_out)
        for K in num_options[method]:
            how = {"epochs": size.epochs, "data": "scripted expert", "preset": size.preset}
            jobs |= compare.entry(task, method, K, seed, asdict(used), **how)
    return jobs


def by_number(preset: Preset) -> dict[str, Grid]:
    size = METHODS[preset]
    arms = {method: tuple(compare.arms(method, size.num_options, method != "compile-np")) for method in size.methods}
    return {"methods.json": grid(("breakout",), size, arms)}


def by_length(preset: Preset) -> dict[str, Grid]:
    size = TRAJECTORIES[preset]
    return {"trajectory_length.json": grid(tuple(f"breakout-{n}" for n in size.lengths), size, TABLE)}


def regularized(preset: Preset) -> dict[str, Grid]:
    """The paper's guide with K = 7, with and without the paper's entropy regularizer."""
    size = METHODS[preset]
    plain = grid(("breakout",), size, {"options-paper": TABLE["options-paper"]})
    return {
        "atari_entropy.json": {
            f"{name}, entropy weight {weight}": settings | {"entropy_weight": weight}
            for name, settings in plain.items()
            for weight in ENTROPY.values()
        }
    }


def entropy_label(row: dict) -> str:
    return next(name for name, weight in ENTROPY.items() if weight == row["entropy_weight"])


def entropy_table(rows: list[dict]) -> str:
    return compare.table(rows, entropy_label)


def entropy_figure(rows: list[dict], path: Path) -> None:
    compare.figure("Breakout, the paper's guide, K = 7", rows, path, entropy_label)


def length(row: dict) -> int:
    return int(row["task"].removeprefix("breakout-"))


def length_table(rows: list[dict]) -> str:
    """Held-out likelihood with a line per length and a column per method, as in the paper's table 2."""
    arms = list(groups(rows, compare.label))
    lines = []
    for n in sorted({length(row) for row in rows}):
        mine = groups([row for row in rows if length(row) == n], compare.label)
        lines.append([n, *(cell([row["log_likelihood"] for row in mine[name]]) for name in arms)])
    return markdown(["steps to learn from", *arms], lines)


def length_figure(rows: list[dict], path: Path) -> None:
    """Likelihood and options in use against the length of the demonstrations."""
    shown = {"log_likelihood": "held-out nats per step", "used_options": "options in use"}
    with viz.style():
        fig, axes = viz.plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        for ax, (key, ylabel) in zip(axes, shown.items()):
            for place, (name, mine) in enumerate(groups(rows, compare.label).items()):
                lengths = sorted({length(row) for row in mine})
                values = [interval([row[key] for row in mine if length(row) == n]) for n in lengths]
                band(ax, lengths, values, viz.option_color(place), name)
            ax.set(xlabel="steps of each demonstration", ylabel=ylabel, xscale="log")
            ax.set_xticks(lengths, [str(n) for n in lengths])
            ax.minorticks_off()
        axes[1].yaxis.set_major_locator(MaxNLocator(integer=True))
        axes[0].legend(fontsize=8)
        fig.suptitle(f"Breakout, judged on whole episodes of {rows[0]['size']['max_steps']} steps")
        fig.savefig(path)
        viz.plt.close(fig)


def band(ax, x, values, color: str, label: str) -> None:
    """A line with its confidence band."""
    ax.plot(x, [v.center for v in values], "o-", color=color, label=label, markersize=4)
    ax.fill_between(x, [v.low for v in values], [v.high for v in values], color=color, alpha=0.2, linewidth=0)


def number_figure(rows: list[dict], path: Path) -> None:
    """Likelihood against a given K; where K is inferred, a dashed line with a cross at the number of options in use."""
    with viz.style():
        fig, ax = viz.plt.subplots(figsize=(6.5, 4), layout="constrained")
        for method, mine in groups(rows, lambda row: row["method"]).items():
            fixed = groups([row for row in mine if row["fixed_options"]], lambda row: row["fixed_options"])
            if fixed:
                values = [interval([row["log_likelihood"] for row in same]) for same in fixed.values()]
                band(ax, list(fixed), values, COLORS[method], f"{method}, K given")
            free = [row for row in mine if not row["fixed_options"]]
            if free:
                level = interval([row["log_likelihood"] for row in free]).center
                found = interval([row["used_options"] for row in free]).center
                ax.axhline(level, color=COLORS[method], linestyle="--", linewidth=1)
                ax.plot(found, level, "x", color=COLORS[method], markersize=9, markeredgewidth=2.5, label=method)
        ax.set(xlabel="number of options K (cross: those in use)", ylabel="held-out nats per step")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_title("Breakout: dashed where K was not given")
        ax.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
        fig.savefig(path)
        viz.plt.close(fig)


#: initial λ_ent, which is annealed
ENTROPY = {"without regularizer": 0.0, "with regularizer": 5.0}
SCRIPTED = "Demonstrations of our scripted expert rather than of an Ape-X agent, judged by"
EXPERIMENTS = {
    "trajectory_length": Experiment(
        "Length of the demonstrations",
        "Table 2 (and 1 and 3, of other games)",
        f"{SCRIPTED} the exact likelihood of held-out episodes of 1000 steps rather than by the reward of an agent that"
        " has the skills. DDO runs at every length.",
        compare.run,
        by_length,
        length_table,
        length_figure,
    ),
    "atari_entropy": Experiment(
        "Entropy regularizer on Atari demonstrations",
        "Figure 6",
        f"{SCRIPTED} exact held-out likelihood; Breakout alone.",
        compare.run,
        regularized,
        entropy_table,
        entropy_figure,
    ),
    "methods": Experiment(
        "Ours against the baselines, for several K",
        "Figures 3 and 4",
        f"{SCRIPTED} exact held-out likelihood; for rewards of agents with skills there is `examples/atari_ppo.py`.",
        compare.run,
        by_number,
        compare.table,
        number_figure,
    ),
}
