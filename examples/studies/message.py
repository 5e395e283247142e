"""Experiments on the message task: the proof of concept, and ablations of one setting at a time."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import message_sweep

from pyro_options import viz

from .experiment import Experiment, Grid, Preset
from .summary import cell, groups, markdown, point_ranges, span

Arms = dict[str, tuple[str, str]]  # name -> variant and guide

#: folder of the committed runs of ``message_sweep.py``
RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Size:
    """The size of an experiment."""

    num_messages: tuple[int, ...]
    num_seeds: int
    epochs: int | None = None  # by default those of the variant


PAPER = Size(tuple(range(2, 13)), 10, 500)
PROOF: dict[Preset, Size] = {
    "smoke": Size((2, 3), 1, 1),
    "quick": Size((2, 4), 2, 60),
    "full": Size(tuple(range(2, 13)), 10),
    "paper": PAPER,
}
ABLATION: dict[Preset, Size] = {
    "smoke": Size((2,), 1, 1),
    "quick": Size((3,), 2, 40),
    "full": Size((8,), 5),
    "paper": PAPER,
}


def grid(arms: Arms, size: Size) -> Grid:
    """All runs of all arms (variant and guide), seed by seed."""
    jobs: Grid = {}
    for seed, n, (variant, guide) in product(range(size.num_seeds), size.num_messages, arms.values()):
        jobs |= message_sweep.entry(variant, guide, n, seed, size.epochs)
    return jobs


def table(arms: Arms):
    """A function that makes the Markdown table, with a line per arm and vocabulary size."""

    def text(rows: list[dict]) -> str:
        names = {pair: name for name, pair in arms.items()}
        lines = []
        for n in sorted({row["num_messages"] for row in rows}):
            mine = [row for row in rows if row["num_messages"] == n]
            for pair, same in groups(mine, lambda row: (row["variant"], row["guide"])).items():
                below = [row["best_possible_log_likelihood"] - row["exact_log_likelihood"] for row in same]
                success = f"{sum(row['success'] for row in same)} of {len(same)}"
                sizes = span([row["num_options"] for row in same]), span([row["used_options"] for row in same])
                known = [row["processor_seconds"] for row in same if row["processor_seconds"] is not None]
                seconds = span(known, ".0f") if known else "not measured"
                lines.append([names[pair], n, success, *sizes, cell(below, ".4f"), seconds])
        header = "setting", "messages", "success", "K", "options in use", "nats per step below the best"
        return markdown([*header, "processor seconds"], lines)

    return text


def figure(arms: Arms):
    """A function that draws recovered K against the vocabulary size; for a single size, the scores of the arms."""
    names = {pair: name for name, pair in arms.items()}

    def name(row: dict) -> str:
        return names[row["variant"], row["guide"]]

    def draw(rows: list[dict], path: Path) -> None:
        if len({row["num_messages"] for row in rows}) > 1:
            message_sweep.figure(rows, path, name)
        else:
            ranges(groups(rows, name), path)

    return draw


def ranges(arms: dict[str, list[dict]], path: Path) -> None:
    """K, the lowest probability over messages, and likelihood, with a line per arm."""
    n = next(iter(arms.values()))[0]["num_messages"]
    shown = {
        "options K": lambda row: row["num_options"],
        "probability of the message served worst": lambda row: row["min_message_probability"],
        "nats per step below the best": lambda row: row["best_possible_log_likelihood"] - row["exact_log_likelihood"],
    }
    colors = [viz.option_color(place) for place in range(len(arms))]
    with viz.style():
        size = (11, 0.42 * len(arms) + 1.4)
        fig, axes = viz.plt.subplots(1, len(shown), figsize=size, layout="constrained")
        for ax, (xlabel, value) in zip(axes, shown.items()):
            values = {name: [value(row) for row in rows] for name, rows in arms.items()}
            point_ranges(ax, values, xlabel, colors, labels=ax is axes[0])
        for line, mark in ((n, "-"), (n + 1, "--")):
            axes[0].axvline(line, color="0.6", linewidth=1, linestyle=mark, zorder=0)
        axes[0].set_xlim(0.5, None)
        axes[1].set_xlim(-0.03, 1.03)
        axes[1].axvline(0.95, color="0.6", linewidth=1, linestyle="--", zorder=0)
        seeds = max(len(rows) for rows in arms.values())
        fig.suptitle(f"{n} messages, seeds: {seeds} (grey lines: $n_V$ and $n_V + 1$ options, success)")
        fig.savefig(path)
        viz.plt.close(fig)


def proof_of_concept(preset: Preset) -> dict[str, Grid]:
    """The grids of the proof of concept; with ``full``, the committed runs of ``message_sweep.py``."""
    size = PROOF[preset]
    ours = grid({name: PROOF_ARMS[name] for name in ("exact", "relaxed", "paper")}, size)
    if preset == "paper":  # literally; beside it our own guides
        return {"message_sweep.json": ours | grid({"paper": PROOF_ARMS["the paper's settings"]}, size)}
    if preset != "full":
        return {"message_sweep.json": ours | grid(PROOF_ARMS, size)}
    usage = grid({"usage": PROOF_ARMS["the paper's guide, usage rule"]}, Size((2, 4, 6, 8), size.num_seeds))
    return {str(RESULTS / "message_sweep.json"): ours, str(RESULTS / "message_sweep_usage.json"): usage}


def ablation(title: str, answers: str, differs: str, arms: Arms) -> Experiment:
    def grids(preset: Preset) -> dict[str, Grid]:
        return {"message_ablations.json": grid(arms, ABLATION[preset])}

    return Experiment(title, answers, differs, message_sweep.run, grids, table(arms), figure(arms))


PROOF_ARMS: Arms = {
    "exact": ("default", "exact"),
    "relaxed": ("default", "relaxed"),
    "paper": ("default", "paper"),
    "the paper's guide, usage rule": ("usage", "paper"),
    "the paper's settings": ("paper", "paper"),
}

#: differences from the paper of the ablations of its own settings
USAGE = (
    "The paper's guide and its rule for growth; new options split the most used one instead of starting at random,"
    " and the stick posterior learns ten times faster than the networks."
)
FIXED = "Not in the paper, which fixes it in appendix C."

EXPERIMENTS = {
    "proof_of_concept": Experiment(
        "Recovered options against the size of the vocabulary",
        "Figure 2",
        "Beside the paper's rule (a new option unless one is used by less than δ / K) growth by evidence, our default,"
        " which ends with n_V options rather than n_V + 1 because it prunes the spare one. 100 epochs rather than 500,"
        " 300 for the paper's rule, which ran for 2, 4, 6 and 8 messages.",
        message_sweep.run,
        proof_of_concept,
        table(PROOF_ARMS),
        figure(PROOF_ARMS),
    ),
    "entropy": ablation(
        "Entropy regularizer: off, fixed, annealed",
        "Figure 5 (appendix D.1), and the annealed one of figure 2",
        USAGE,
        {
            "off": ("no-entropy", "paper"),
            "fixed": ("fixed-entropy", "paper"),
            "annealed": ("usage", "paper"),
        },
    ),
    "guides": ablation(
        "Guides: how the posterior over paths is made",
        "Not in the paper, whose guide is another one (section 4.2)",
        "Growth by evidence, each guide with its defaults. The last one is the paper's with a point estimate of η.",
        {
            "relaxed": ("default", "relaxed"),
            "paper": ("default", "paper"),
            "exact": ("default", "exact"),
            "score function": ("default", "score-function"),
            "straight-through": ("default", "straight-through"),
            "paper, point estimate": ("point", "paper"),
        },
    ),
    "entropy_per": ablation(
        "Whose use of options should be even: the batch's or each trajectory's",
        "Equation 15 is about each trajectory; the paper's code averages over the batch",
        USAGE,
        {"batch": ("usage", "paper"), "trajectory": ("trajectory-entropy", "paper")},
    ),
    "delta": ablation(
        "δ: how rarely an option must be used to stop growth",
        FIXED,
        USAGE,
        {
            "δ = 0.25": ("delta-0.25", "paper"),
            "δ = 0.5": ("usage", "paper"),
            "δ = 0.75": ("delta-0.75", "paper"),
        },
    ),
    "check_every": ablation(
        "n_K: updates between checks",
        FIXED,
        USAGE + " 80 updates are 10 epochs, as in the paper.",
        {"40": ("check-40", "paper"), "80": ("usage", "paper"), "160": ("check-160", "paper")},
    ),
    "alpha": ablation(
        "α: the concentration to start from",
        FIXED,
        USAGE + " α is learned.",
        {
            "α = 0.1": ("alpha-0.1", "paper"),
            "α = 1": ("usage", "paper"),
            "α = 10": ("alpha-10", "paper"),
        },
    ),
    "temperature": ablation(
        "Temperature: factor per epoch",
        FIXED,
        USAGE + " It starts at 1 and does not fall below 0.05.",
        {
            "0.98": ("temperature-0.98", "paper"),
            "0.995": ("usage", "paper"),
            "1 (constant)": ("temperature-1.0", "paper"),
        },
    ),
}
