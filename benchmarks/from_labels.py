"""Whether the true sub-tasks are the better optimum: a training that starts from them, beside discovery. Run it with::

    python benchmarks/from_labels.py --tasks pick_and_place --seeds 100 101

``labels`` fits options to the steps of each true sub-task and terminations to their ends, and trains all of them from
there for as long as ``discover`` does, with the true K. ``discover`` has its defaults. Both are scored on the same
held-out episodes. If ``labels`` explains them better, discovery has missed an optimum; if not, the likelihood prefers
another cut than the labels.
"""

import copy
import time
import warnings
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import tyro
from suite import HELD_OUT, make, scores
from suite_tasks import Task

from pyro_options.data import Trajectories
from pyro_options.discovery import build, discover
from pyro_options.discovery.hard_paths import Demonstrated, HardModel, HardPaths
from pyro_options.discovery.hard_search import assign_hard
from pyro_options.experiments import run_grid
from pyro_options.growth.resizing import reweight
from pyro_options.infer import Trainer
from pyro_options.skills import Skills
from pyro_options.skills.from_model import to_skills

REFITS = 20  # of the options to the labelled steps


@dataclass(frozen=True)
class Args:
    """Compare a training from the labels with discovery."""

    tasks: tuple[str, ...] = ("pick_and_place",)
    seeds: tuple[int, ...] = (100,)
    starts: tuple[str, ...] = ("labels", "discover")
    hidden: tuple[int, ...] = ()  # widths of the state network of the training from the labels
    episodes: int | None = None
    epochs: int | None = None
    processes: int = 1
    out: Path = Path("benchmarks/results/from_labels.json")


def trained_from_labels(task: Task, seed: int, hidden: tuple[int, ...], epochs: int | None) -> Skills:
    """The true number of options, trained from fits to the labelled steps."""
    data = task.trajectories.split(HELD_OUT, seed)[0]
    labels = Trajectories(task.labels.double().unsqueeze(-1), None, task.trajectories.lengths)
    labels = labels.split(HELD_OUT, seed)[0].states.squeeze(-1).long().clamp(min=0)
    method = build("options-exact", data, num_options=task.num_options, hidden=tuple(hidden), start="random")
    steps = Demonstrated.some(data)
    hard = HardModel(copy.deepcopy(method.model.policy).double(), steps, price=0.0)
    paths = HardPaths(labels, labels.double(), 0.0)
    for _ in range(REFITS):
        hard.refit(paths)
    reweight([method.guide], assign_hard(method.model, hard, paths))
    train = replace(method.train, seed=seed, device="cpu", progress=False, final_phase=0.15)
    trainer = Trainer(method.model, method.guide, data, train if epochs is None else replace(train, epochs=epochs))
    trainer.run()
    return to_skills(trainer.model, trainer.guide)


def run(task: str, seed: int, start: str, hidden: tuple[int, ...], episodes: int | None, epochs: int | None) -> dict:
    """One training, scored."""
    truth = make(task, seed, episodes)[0]
    began = time.process_time()
    if start == "labels":
        skills = trained_from_labels(truth, seed, hidden, epochs)
    else:
        told: dict[str, Any] = {} if epochs is None else {"epochs": epochs}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told |= {"device": "cpu", "progress": False, "trust": False}
            skills = discover(truth.trajectories, held_out=HELD_OUT, seed=seed, **told)
    train, test = truth.trajectories.split(HELD_OUT, seed)
    found = scores(skills, truth)
    del found["segmentation"]
    return found | {
        "num_options": skills.num_options,
        "train_log_likelihood": skills.log_likelihood(train),
        "held_out_log_likelihood": skills.log_likelihood(test),
        "processor_seconds": time.process_time() - began,
    }


def main(args: Args) -> list[dict]:
    sizes = {"hidden": args.hidden, "episodes": args.episodes, "epochs": args.epochs}
    grid = {
        f"{task}, {start}, seed {seed}": {"task": task, "seed": seed, "start": start} | sizes
        for seed, task, start in product(args.seeds, args.tasks, args.starts)
    }
    rows = run_grid(run, grid, args.out, args.processes)
    for row in rows:
        figures = f"{row['used_options']} in use, accuracy {row['accuracy']:.3f}, F1 {row['boundary_f1']:.3f}"
        nats = f"train {row['train_log_likelihood']:.4f}, held out {row['held_out_log_likelihood']:.4f}"
        print(f"{row['task']}, seed {row['seed']}, {row['start']}: {figures}, {nats}")
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
