"""Trainings for processes that torchrun starts: ``torchrun … parallel_runs.py FOLDER SCENARIO…``.

Every process saves what it ended with as ``SCENARIO.SIZE.RANK`` in the folder.
"""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from pyro_options.discovery import build, discover
from pyro_options.envs import message_demonstrations
from pyro_options.growth import Merge, Prune, TrialRule, Workers
from pyro_options.infer import Constant, TrainConfig, Trainer, join_workers, set_seed
from pyro_options.persistence import Checkpoint

NUM_EPISODES = 61
EVIDENCE = {"rule": "evidence", "check_every": 18, "initial_options": 4, "max_options": 6}


class Stop:
    """Sends a signal to the last process itself, in the middle of a training."""

    def __init__(self, trainer, number, step, folder):
        self.trainer, self.number, self.step, self.folder = trainer, number, step, folder
        self.taken, trainer.step = trainer.step, self

    def __call__(self, batch):
        workers = self.trainer.workers
        if self.trainer.num_steps == self.step and workers.rank == workers.size - 1:
            (self.folder / "stopped").write_text(str(time.time()))
            os.kill(os.getpid(), self.number)
        return self.taken(batch)


def make_trainer(
    workers: Workers, method="options-exact", batch_size=7, epochs=8, entropy=0.0, checkpoint=None, **config
):
    """On episodes that two processes cannot divide evenly; the last batch has a single one."""
    data, held_out = message_demonstrations(3, NUM_EPISODES).split(4 / NUM_EPISODES)
    set_seed(0)
    parts = build(method, data, **config)
    train = TrainConfig(epochs=epochs, batch_size=batch_size, progress=False, entropy_weight=Constant(entropy))
    return Trainer(parts.model, parts.guide, data, train, parts.growth, held_out, checkpoint, workers=workers)


def result(trainer: Trainer) -> dict:
    """What processes are compared by."""
    events = [] if trainer.growth is None else trainer.growth.history
    return {
        "parameters": [p.detach().clone() for p in trainer.parameters()],
        "moves": [[(move.kind, move.components, move.verdict.accepted) for move in event.moves] for event in events],
        "objective": trainer.history.objective,
        "skipped": trainer.history.skipped_steps,
        "random": torch.get_rng_state(),
    }


def evidence(workers, folder):
    """Births and prunes, judged at once."""
    trainer = make_trainer(workers, **EVIDENCE)
    trainer.run()
    return result(trainer)


def trial(workers, folder):
    """Births, prunes and merges, with the entropy of the usage of whole batches."""
    more = {"rule": TrialRule(0.5), "birth": "split", "removals": (Merge(tolerance=30.0), Prune())}
    trainer = make_trainer(workers, entropy=0.2, check_every=18, max_options=6, initial_options=3, **more)
    trainer.run()
    return result(trainer)


def paper(workers, folder):
    """A guide that draws the path of every episode; batches of one episode leave the second process without any."""
    trainer = make_trainer(workers, "options-paper", batch_size=1, epochs=1, entropy=0.1, num_options=3)
    trainer.run()
    return result(trainer)


def skipping(workers, folder):
    """The states of one episode are not finite: both processes skip its batch."""
    trainer = make_trainer(workers, "options-exact", epochs=2, num_options=3)
    trainer.data.state_steps.values[5] = torch.nan
    trainer.config = replace(trainer.config, on_nonfinite="skip")
    trainer.run()
    return result(trainer)


def saved(workers, folder):
    """Saved every other step; stopped if the environment says so, and resumed."""
    checkpoint = Checkpoint(folder / "training.safetensors", resume=True, every_seconds=1e6, every_steps=2)
    trainer = make_trainer(
        workers, checkpoint=checkpoint, check_every=18, max_options=6, initial_options=4, rule="evidence"
    )
    if "STOP" in os.environ:
        Stop(trainer, *map(int, os.environ["STOP"].split(":")), folder)
    trainer.run()
    return result(trainer)


def whole(workers, folder):
    """``discover`` itself, with a search, restarts, and single policies for comparison."""
    given = {"held_out": 0.2, "epochs": 10, "restarts": 2, "num_options": 2, "progress": False}
    skills = discover(message_demonstrations(2, 24), **given)
    metadata = {name: skills.metadata[name] for name in ("growth", "log_likelihood", "trust", "options_in_use")}
    return {"parameters": [p.detach() for p in skills.policy.parameters()], "metadata": metadata}


SCENARIOS = {one.__name__: one for one in (evidence, trial, paper, skipping, saved, whole)}


def main(folder: Path, names: list[str]) -> None:
    """Runs scenarios in all processes."""
    workers = join_workers()
    for name in names:
        torch.save(SCENARIOS[name](workers, folder), folder / f"{name}.{workers.size}.{workers.rank}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
