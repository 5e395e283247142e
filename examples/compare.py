"""Compare all methods on the same demonstrations: ours, DDO, CompILE and behaviour cloning, for several K and seeds.

Tasks are the paper's messages, data from five known options, CompILE's integer sequences, and Breakout. Run it with::

    python examples/compare.py                                              # everything, on two cores
    python examples/compare.py --tasks synthetic --methods options-exact ddo --seeds 0 1 2
    python examples/compare.py --data breakout_expert.npz                   # arrays ram, action, length

A method that can grow is run once with K inferred. Methods that cannot, and those of ``--fixed``, are run for each K of
the task, with the best of ``--restarts`` restarts. Every run is one call of ``discover`` with its defaults, or with
settings tuned for the task (``TASKS`` in ``examples/studies/tasks.py``). Finished runs are saved in ``--out``, and the
same command resumes after an interruption. It writes ``compare.json`` (every run, with commands and versions),
``compare.md`` and a figure for each task: interquartile means over seeds with 95 % bootstrap intervals.

The log-likelihood is that of held-out actions given states, exact, with paths (CompILE: segments) summed out. The most
probable segmentation is compared with the ground truth if there is one.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
import tyro
from studies.summary import cell, groups, markdown, point_ranges, span
from studies.tasks import TASKS, Demonstrations

from pyro_options import viz
from pyro_options.discovery import METHODS, Budget, discover, paper_settings
from pyro_options.errors import check, choice
from pyro_options.experiments import read_runs, run_grid
from pyro_options.infer import Exponential
from pyro_options.skills import Skills, boundaries, boundary_scores, label_scores


@dataclass(frozen=True)
class Args:
    """Compare methods."""

    tasks: tuple[str, ...] = ("message-4", "message-8", "synthetic", "integers", "breakout")
    """keys of TASKS"""
    methods: tuple[str, ...] = ("options-exact", "options-paper", "ddo", "compile", "compile-np", "bc", "bc-deep")
    """keys of METHODS"""
    fixed: tuple[str, ...] = ("options-exact",)
    """methods that can grow, to be run with fixed K as well"""
    num_options: tuple[int, ...] = ()
    """values of a fixed K; by default those of the task"""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    data: Path | None = None
    """npz file of Breakout with arrays ram, action and length; by default the scripted expert"""
    num_episodes: int | None = None
    """training episodes; by default those of the task"""
    held_out: int | None = None
    """episodes for evaluation; by default those of the task"""
    epochs: int | None = None
    """by default those of the task, or of discover"""
    restarts: int = 4
    """restarts of methods with a given K, of which the best continues: a single run often ends in a local optimum"""
    processes: int = 2
    """runs at a time, each on one thread"""
    out: Path = Path("out/compare")
    run: bool = True
    """train missing runs; otherwise only write table and figures of finished ones"""
    progress: bool = True

    def __post_init__(self) -> None:
        for task in self.tasks:
            choice(task, "task", TASKS)
        for method in (*self.methods, *self.fixed):
            choice(method, "method", METHODS)
        check(self.data is None or self.data.exists(), "a file that exists", self.data)


def arms(method: str, num_options: Sequence[int], fixed: bool = True) -> list[int | None]:
    """The values of K to run a method with; ``None`` means that K is inferred, or fixed by the method.

    :param fixed: whether to run a method that can grow with each fixed K as well
    """
    settings = METHODS[method]
    if "num_options" in settings:
        return [None]
    if settings.get("prior") == "uniform":
        return [*num_options]
    return [None, *(num_options if fixed else ())]


def entry(
    task: str,
    method: str,
    K: int | None,
    seed: int,
    size: dict,
    epochs: int | None = None,
    data: str = "",
    restarts: int = 1,
    preset: str | None = None,
) -> dict[str, dict]:
    """Name -> settings of one run.

    :param data: name of Breakout's demonstrations, for the record
    :param restarts: restarts of a method with a given K
    :param preset: of ``discover``, instead of the settings of the task
    """
    config = TASKS[task].settings | TASKS[task].tuned.get(method, {}) if preset is None else {"preset": preset}
    config |= {} if epochs is None else {"epochs": epochs}
    if K is not None and restarts > 1:
        config |= {"restarts": restarts}
    settings: dict[str, Any] = {"task": task, "method": method, "fixed_options": K, "seed": seed, "size": size}
    settings["config"] = config
    if task.startswith("breakout"):
        settings["data"] = data
    return {f"{task}, {label(settings)}, seed {seed}": settings}


def grid(args: Args) -> dict[str, dict]:
    """All runs, seed by seed, so that an unfinished comparison has all methods on the same seeds."""
    jobs: dict[str, dict] = {}
    given = {"num_episodes": args.num_episodes, "held_out": args.held_out}
    given = {name: x for name, x in given.items() if x is not None}
    data = "scripted expert" if args.data is None else args.data.name
    for seed, task, method in product(args.seeds, args.tasks, args.methods):
        size = asdict(replace(TASKS[task].size, **given))
        for K in arms(method, args.num_options or TASKS[task].num_options, method in args.fixed):
            jobs |= entry(task, method, K, seed, size, args.epochs, data, args.restarts)
    return jobs


def label(row: dict) -> str:
    """The name of a method in tables and figures."""
    return row["method"] if row["fixed_options"] is None else f"{row['method']}, K = {row['fixed_options']}"


def run(
    task: str,
    method: str,
    fixed_options: int | None,
    seed: int,
    size: dict,
    config: dict,
    data: str = "",
    entropy_weight: float | None = None,
    *,
    file: Path | None = None,
) -> dict:
    """One call of ``discover``, evaluated on held-out episodes.

    :param config: arguments of ``discover``
    :param data: name of Breakout's demonstrations, for the record
    :param entropy_weight: initial weight of the entropy regularizer, instead of the guide's default
    """
    spec = TASKS[task]
    episodes = spec.make(seed, replace(spec.size, **size), file)
    # JSON has no tuples; settings that the method fixes are not overridden by the task
    config = {k: tuple(x) if isinstance(x, list) else x for k, x in config.items() if k not in METHODS[method]}
    if fixed_options is not None:
        config["num_options"] = fixed_options
    if entropy_weight is not None:
        budget = Budget().train_config(episodes.train, config.get("hidden", ()))
        train = paper_settings(episodes.train).train if config.get("preset") == "paper" else budget
        config["train"] = replace(train, entropy_weight=Exponential(entropy_weight))
    skills = discover(episodes.train, method, seed=seed, device="cpu", progress=False, trust=False, **config)
    return judge(skills, episodes)


def judge(skills: Skills, episodes: Demonstrations) -> dict:
    """Likelihood and segmentation of held-out episodes."""
    held, truth = episodes.held_out, episodes.truth
    found = skills.segment(held)
    said = skills.predict(held.states[held.mask].numpy(), found.options[held.mask].numpy())
    result = {
        "log_likelihood": found.log_likelihood_per_step,
        "reconstruction": float((torch.as_tensor(said) == held.actions[held.mask]).float().mean()),
        "train_log_likelihood": skills.metadata["log_likelihood"]["train"],
        "num_options": skills.num_options,
        "used_options": found.used_options,
        "mean_segment_length": found.mean_length,
        "epochs": len(skills.metadata["history"]["objective"]),
        "seconds": skills.metadata["seconds"],
    }
    if truth is not None:
        edges = [boundaries(options, held.mask) for options in (found.options, truth.options)]
        labels, where = label_scores(found.options, truth.options, held.mask), boundary_scores(*edges, held.mask)
        result |= {"accuracy": labels.accuracy, "nmi": labels.nmi, "boundary_f1": where.f1}
        result |= {"best_log_likelihood": truth.best_log_likelihood}
        result |= {"below_best": truth.best_log_likelihood - found.log_likelihood_per_step}
    return result


#: title, key of a row and number format of each column; columns whose key is missing are omitted
COLUMNS = (
    ("held-out nats per step", "log_likelihood", ".4f"),
    ("below the best possible", "below_best", ".4f"),
    ("actions reproduced", "reconstruction", ".3f"),
    ("options in use", "used_options", ".3g"),
    ("steps right", "accuracy", ".3f"),
    ("mutual information", "nmi", ".3f"),
    ("boundary F1", "boundary_f1", ".3f"),
    ("steps until another option", "mean_segment_length", ".1f"),
)


def table(rows: list[dict], name: Callable[[dict], str] = label) -> str:
    """A Markdown table of one task, with a line per method.

    :param name: line that a run belongs to
    """
    columns = [column for column in COLUMNS if column[1] in rows[0]]
    lines = []
    for arm, mine in groups(rows, name).items():
        cells = [cell([row[key] for row in mine], form) for _, key, form in columns]
        lines.append([arm, len(mine), *cells, span([row["processor_seconds"] for row in mine], ".0f")])
    return markdown(["method", "seeds", *(title for title, _, _ in columns), "processor seconds"], lines)


def page(rows: list[dict]) -> str:
    """The Markdown page with all tasks."""
    parts = [
        "# Methods compared\n",
        "Interquartile means over seeds, with 95 % bootstrap intervals in brackets where runs differ; seconds are the"
        " least and the most of one core. Likelihoods are exact, of held-out actions given states. A method"
        " without K found its number of options by itself. Every run, with the command that made it, is in"
        " `compare.json`.\n",
    ]
    for task, mine in groups(rows, lambda row: row["task"]).items():
        size = mine[0]["size"]
        data = f", data: {mine[0]['data']}" if "data" in mine[0] else ""
        parts.append(f"## {TASKS[task].title}\n")
        parts.append(f"{size['num_episodes']} episodes to learn from, {size['held_out']} to judge by{data}.\n")
        parts.append(table(mine))
        parts.append(f"![{TASKS[task].title}]({figure_name(task)})\n")
    return "\n".join(parts)


def figure_name(task: str) -> str:
    return f"compare_{task}.png"


def figure(title: str, rows: list[dict], path: Path, name: Callable[[dict], str] = label) -> None:
    """Likelihood and segmentation scores, a line per method and K, coloured by method.

    :param name: line that a run belongs to
    """
    shown = {"below_best": "nats per step below the best", "accuracy": "steps right", "boundary_f1": "boundary F1"}
    if "below_best" not in rows[0]:
        shown = {"log_likelihood": "held-out nats per step", "mean_segment_length": "steps until another option"}
    shown |= {"used_options": "options in use"}
    arms_ = groups(rows, name)
    families = list(groups(rows, lambda row: row["method"]))
    colors = [viz.option_color(families.index(mine[0]["method"])) for mine in arms_.values()]
    with viz.style():
        size = (3.0 * len(shown) + 1, 0.32 * len(arms_) + 1.4)
        fig, axes = viz.plt.subplots(1, len(shown), figsize=size, layout="constrained")
        for ax, (key, xlabel) in zip(axes, shown.items()):
            values = {arm: [row[key] for row in mine] for arm, mine in arms_.items()}
            point_ranges(ax, values, xlabel, colors, labels=ax is axes[0])
            if key in ("accuracy", "boundary_f1"):
                ax.set_xlim(-0.03, 1.03)
        seeds = span([len(mine) for mine in arms_.values()])
        fig.suptitle(f"{title} (seeds: {seeds}, interquartile means with 95 % intervals)")
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> list[dict]:
    """Trains missing runs, then writes the tables and the figures."""
    path, jobs = args.out / "compare.json", grid(args)
    if args.run:
        rows = run_grid(partial(run, file=args.data), jobs, path, args.processes, args.progress)
    else:
        done = {row["name"]: row for row in read_runs(path)}
        rows = [done[name] for name in jobs if name in done]
    for task, mine in groups(rows, lambda row: row["task"]).items():
        figure(TASKS[task].title, mine, args.out / figure_name(task))
    text = page(rows)
    (args.out / "compare.md").write_text(text)
    print(text)
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
