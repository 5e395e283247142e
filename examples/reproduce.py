"""Reproduce the experiments of the paper that a CPU can run, from raw runs to figures and a page. Run it with::

    python examples/reproduce.py                                       # quick: minutes, to check that everything works
    python examples/reproduce.py --only proof_of_concept entropy
    python examples/reproduce.py --preset smoke                        # one epoch each, a test of the code
    python examples/reproduce.py --preset full                         # hours
    python examples/reproduce.py --preset paper --processes 16         # the paper's own budgets: days

Runs are saved in ``--out`` as they finish, and the same command resumes after an interruption. It writes a figure for
each experiment and ``README.md``, which names the corresponding figure or table of the paper and the differences. With
``full``, the proof of concept uses the committed runs of ``message_sweep.py``.
"""

from dataclasses import dataclass
from pathlib import Path

import tyro
from studies import message, methods
from studies.experiment import Experiment, Preset

from pyro_options.errors import choice

EXPERIMENTS: dict[str, Experiment] = message.EXPERIMENTS | methods.EXPERIMENTS

#: description of each preset, for the page
PRESETS: dict[Preset, str] = {
    "smoke": "One epoch each: nothing to look at.",
    "quick": "Two seeds and short runs: these figures show that everything runs, not what is true.",
    "full": "What our budgets allow; the number of seeds is that of the runs in each row.",
    "paper": "The paper's numbers of seeds and epochs.",
}


@dataclass(frozen=True)
class Args:
    """Reproduce the paper."""

    preset: Preset = "quick"
    only: tuple[str, ...] = ()
    """names of experiments, by default all; the page also shows experiments that were completed before"""
    processes: int = 2
    """runs at a time, each on one thread"""
    out: Path = Path("examples/results/reproduce")
    """results go to a subfolder with the name of the preset"""
    progress: bool = True

    def __post_init__(self) -> None:
        for name in self.only:
            choice(name, "experiment", EXPERIMENTS)


def section(name: str, rows: list[dict]) -> str:
    """The section of an experiment on the page, in Markdown."""
    experiment = EXPERIMENTS[name]
    minutes = sum(row["processor_seconds"] or 0 for row in rows) / 60
    return "\n".join(
        [
            f"## {experiment.title}\n",
            f"Answers: {experiment.answers}. What differs: {experiment.differs}\n",
            experiment.table(rows),
            f"![{experiment.title}]({name}.png)\n",
            f"{len(rows)} runs, {minutes:.1f} minutes of one core. `--only {name}`\n",
        ]
    )


def main(args: Args) -> dict[str, list[dict]]:
    """Trains missing runs, then writes the figures and the page."""
    folder = args.out / args.preset
    folder.mkdir(parents=True, exist_ok=True)
    parts = [f"# The paper's experiments, preset `{args.preset}`\n", PRESETS[args.preset] + "\n"]
    parts.append(f"Made by `python examples/reproduce.py --preset {args.preset}`; raw runs are beside this page.\n")
    done: dict[str, list[dict]] = {}
    for name, experiment in EXPERIMENTS.items():
        if not args.only or name in args.only or experiment.complete(args.preset, folder):
            print(f"{name}: {experiment.title}")
            done[name] = rows = experiment.run(args.preset, folder, args.processes, args.progress)
            experiment.figure(rows, folder / f"{name}.png")
            parts.append(section(name, rows))
    (folder / "README.md").write_text("\n".join(parts))
    print(f"wrote {folder / 'README.md'} and {len(done)} figures")
    return done


if __name__ == "__main__":
    main(tyro.cli(Args))
