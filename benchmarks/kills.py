"""Kill trainings with SIGKILL, resume them, and compare their final parameters with those of uninterrupted runs.

Trainings with every guide run in separate processes. They are killed at random times, during the write of a checkpoint
(before the data are on disk, after, and between the two renames) and right after a growth event; each several times
before it may finish. Run it with::

    python benchmarks/kills.py --runs 25

Finished runs are not repeated. It writes ``benchmarks/results/kills.json``: for each run, where it was killed, how many
steps each kill lost, and whether the final parameters equal those of an uninterrupted run, bit for bit.
"""

import json
import os
import random
import shutil
import signal
import stat
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
import tyro

from pyro_options.discovery import build
from pyro_options.envs import message_demonstrations
from pyro_options.experiments import unfinished_results, write_results
from pyro_options.infer import TrainConfig, Trainer, set_seed
from pyro_options.persistence import Checkpoint
from pyro_options.persistence.storage import checksum

EVERY = 3  # steps between checkpoints
GUIDES = ("options-exact", "options-paper", "options-score-function", "options-straight-through", "options-point")
#: where a process kills itself; ``time``: it is killed by the parent
MOMENTS = ("time", "half written", "written", "between renames", "after growth")


@dataclass(frozen=True)
class Args:
    """Kill and resume."""

    runs: int = 25
    kills: int = 3
    """kills per run"""
    epochs: int = 12
    seed: int = 0
    out: Path = Path("benchmarks/results/kills.json")


def make_trainer(method: str, epochs: int, path: Path | None) -> Trainer:
    """A training with several births and removals."""
    torch.set_num_threads(1)
    data = message_demonstrations(3, 120, 0)
    set_seed(0)
    rule = {"rule": "trial", "check_every": 8} if method == "options-exact" else {"rule": "usage", "check_every": 12}
    parts = build(method, data, hidden=(8,), max_options=6, **rule)
    config = TrainConfig(epochs=epochs, batch_size=32, learning_rate=0.02, progress=False, device="cpu")
    saved = None if path is None else Checkpoint(path, resume=True, every_steps=EVERY)
    return Trainer(parts.model, parts.guide, data, config, parts.growth, checkpoint=saved)


def die() -> None:
    """Kills this process without any cleanup."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(trainer: Trainer, moment: str, countdown: int) -> None:
    """Makes the process kill itself when it reaches ``moment`` for the ``countdown``-th time."""
    left = [countdown]

    def bang() -> None:
        left[0] -= 1
        if left[0] == 0:
            die()

    fsync, replace = os.fsync, os.replace

    def half_written(descriptor: int) -> None:
        entry = os.fstat(descriptor)
        if stat.S_ISREG(entry.st_mode):  # folders are synced too
            if left[0] == 1:
                os.truncate(descriptor, entry.st_size // 2)  # simulates a partial write
            bang()
        fsync(descriptor)

    def written(descriptor: int) -> None:
        fsync(descriptor)
        bang()

    def between(source, target) -> None:
        if str(source).endswith(".tmp"):
            bang()
        replace(source, target)

    def grown(*given, **settings):
        event = observe(*given, **settings)
        if event.num_born:
            bang()
        return event

    observe = trainer.observe_and_grow
    if moment == "half written":
        os.fsync = half_written
    elif moment == "written":
        os.fsync = written
    elif moment == "between renames":
        os.replace = between  # type: ignore[assignment]
    elif moment == "after growth":
        trainer.observe_and_grow = grown  # type: ignore[method-assign]


def child(method: str, epochs: int, path: Path, moment: str, countdown: int) -> None:
    """One process of a run. Logs each step, unbuffered, so that lost steps can be counted."""
    trainer = make_trainer(method, epochs, path)
    steps = os.open(path.with_name("steps"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    take = trainer.step

    def step(batch):
        elbo = take(batch)
        os.write(steps, f"{trainer.num_steps}\n".encode())
        return elbo

    trainer.step = step  # type: ignore[method-assign]
    os.write(steps, f"start {trainer.num_steps}\n".encode())
    arm(trainer, moment, countdown)
    trainer.run()
    path.with_name("final").write_text(final(trainer))


def final(trainer: Trainer) -> str:
    """A checksum of all parameters and of the history."""
    tensors = {f"model.{name}": value for name, value in trainer.model.state_dict().items()}
    tensors |= {f"guide.{name}": value for name, value in trainer.guide.state_dict().items()}
    return checksum(json.dumps(trainer.history.to_dict() | {"seconds": 0.0}), tensors)


def life(method: str, args: Args, path: Path, moment: str, countdown: int, seconds: float | None) -> int | None:
    """Starts a process, kills it after ``seconds`` if given, and returns its exit code."""
    process = get_context("fork").Process(target=child, args=(method, args.epochs, path, moment, countdown))
    process.start()
    if seconds is not None:
        time.sleep(seconds)
        process.kill()
    process.join()
    return process.exitcode


def lost_steps(log: Path) -> list[int]:
    """The number of steps that each resumed process had to repeat."""
    lost, last = [], None
    for line in log.read_text().splitlines():
        if line.startswith("start"):
            if last is not None:
                lost.append(last - int(line.split()[1]))
        else:
            last = int(line)
    return lost


def run(number: int, method: str, expected: str, duration: float, args: Args) -> dict:
    """One run that is killed several times, and its result.

    :param expected: checksum of the uninterrupted run
    :param duration: its duration in seconds
    """
    rng = random.Random(f"{args.seed} {number}")
    folder = Path(tempfile.mkdtemp())
    path = folder / "run.safetensors"
    killed = []
    for kill in range(args.kills):
        moment = MOMENTS[(number + kill) % len(MOMENTS)]
        seconds = rng.uniform(0, duration) if moment == "time" else None
        countdown = rng.randint(1, 2) if moment == "after growth" else rng.randint(1, 8)
        code = life(method, args, path, moment, countdown, seconds)
        if code == 0:  # it finished before the kill
            break
        assert code == -signal.SIGKILL, code
        killed.append(moment)
    if not path.with_name("final").exists():
        code = life(method, args, path, "never", 1, None)
        assert code == 0, code
    Trainer.FORMAT.read(path)
    row = {
        "number": number,
        "method": method,
        "killed": killed,
        "lost_steps": lost_steps(path.with_name("steps")),
        "identical": path.with_name("final").read_text() == expected,
        "litter": len(list(folder.glob("*.tmp")) + list(folder.glob(".*.tmp"))),
    }
    shutil.rmtree(folder)
    return row


def main(args: Args) -> dict:
    rows = unfinished_results(args.out).get("rows", [])
    expected: dict[str, tuple[str, float, int]] = {}
    for number in sorted(set(range(args.runs)) - {row["number"] for row in rows}):
        method = GUIDES[number % len(GUIDES)]
        if method not in expected:
            trainer = make_trainer(method, args.epochs, None)
            start = time.perf_counter()
            history = trainer.run()
            moves = len(history.growth_epochs) + len(history.removal_epochs)
            expected[method] = final(trainer), time.perf_counter() - start, moves
            print(f"{method}: {trainer.num_steps} steps, {moves} epochs with births or removals", flush=True)
        rows.append(run(number, method, *expected[method][:2], args))
        print(rows[-1], flush=True)
        write_results(args.out, summary(rows))
    record = summary(rows)
    print({key: value for key, value in record.items() if key != "rows"})
    return record


def summary(rows: list[dict]) -> dict:
    """The content of the results file."""
    lost = [steps for row in rows for steps in row["lost_steps"]]
    return {
        "checkpoint_every_steps": EVERY,
        "identical": sum(row["identical"] for row in rows),
        "runs": len(rows),
        "kills": {moment: sum(row["killed"].count(moment) for row in rows) for moment in MOMENTS},
        "most_steps_lost": max(lost, default=0),
        "litter": sum(row["litter"] for row in rows),
        "rows": rows,
    }


if __name__ == "__main__":
    found = main(tyro.cli(Args))
    sys.exit(found["identical"] < found["runs"] or found["most_steps_lost"] > EVERY)
