"""A training in a file: stop it anywhere, go on to the same numbers.

What is kept: parameters, K and the history of growth, the optimizer, where the schedules are, the order of the data and
every source of random numbers. A training that was killed and resumed ends with the same bytes as one that was not.
"""

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from pyro_options.errors import FileError, Interrupted, check
from pyro_options.growth.resizing import num_components
from pyro_options.handlers.growth import GrowthMessenger

from .serialization import (
    fill,
    load_optimizer,
    module_state,
    optimizer_state,
    parts,
    plan_modules,
    prefixed,
    random_state,
    set_random_state,
)
from .storage import Format, checksum, previous_of, reading, sweep

logger = logging.getLogger(__name__)

FORMAT = Format("pyro_options.Training", 2, "Checkpoint")
_FREE = ("epochs", "device", "progress", "on_nonfinite")  # settings that a resumed training may change


class Training(Protocol):
    """What can be saved: it stops between steps, and the same state goes on to the same numbers."""

    COUNTS: ClassVar[tuple[str, ...]]  # attributes that say how far it is, ``num_steps`` among them
    model: nn.Module
    guide: nn.Module
    config: Any
    optimizer: Optimizer
    history: Any  # a dataclass of numbers and lists of them
    num_steps: int
    settled: bool  # whether it is over

    @property
    def growth(self) -> GrowthMessenger | None:
        """What grows it."""

    @property
    def data_sets(self) -> tuple[Any, ...]:
        """The data, which must be the same when it goes on."""

    @property
    def done(self) -> str:
        """How far it is, for people."""

    def position(self) -> tuple[dict[str, float], dict[str, Tensor]]:
        """Where it is in the data: plain numbers, and tensors."""

    def set_position(self, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """The inverse of :meth:`position`."""


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a training is saved, always between two steps.

    :param path: the file; the one before it is kept beside it, as ``….previous``
    :param resume: go on from the file if there is one. Without it an unfinished training is not overwritten
    :param every_seconds: save when so many have passed since the last time
    :param every_steps: save after so many optimizer steps, too
    :param about: what else must be the same when the training is resumed, in plain numbers and texts
    """

    path: str | os.PathLike
    resume: bool = False
    every_seconds: float = 60.0
    every_steps: int | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self.every_seconds >= 0, "every_seconds >= 0", self.every_seconds)
        check(self.every_steps is None or self.every_steps >= 1, "every_steps >= 1", self.every_steps)
        parent = Path(self.path).parent
        check(parent.is_dir(), "a folder to save checkpoints in", repr(str(parent)), "Make it first.")

    def settings(self) -> dict[str, Any] | None:
        """Those of the training that is to be resumed; ``None`` if there is none."""
        found = FORMAT.read_last_good(self.path) if self.resume else None
        return None if found is None else found[0]["settings"]


def plain(value: Any) -> Any:
    """Settings as JSON has them: a dataclass with its type, anything unknown by its name."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"type": type(value).__name__} | {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)


def _settings(trainer: Training, about: Mapping[str, Any]) -> dict[str, Any]:
    """What must be the same for a training to go on."""
    growth = trainer.growth
    schedule = ("rule", "birth", "removals", "every", "patience", "settle", "max_components", "site")
    return {
        "train": {name: value for name, value in plain(trainer.config).items() if name not in _FREE},
        "growth": None if growth is None else {name: plain(getattr(growth, name)) for name in schedule},
        "about": plain(about),
        "data": [None if data is None else fingerprint(data) for data in trainer.data_sets],
    }


def fingerprint(data: Any) -> str:
    """Of every number in a data set."""
    given = {"rows": data} if isinstance(data, Tensor) else {f.name: getattr(data, f.name) for f in fields(data)}
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    return checksum(str({name: value for name, value in given.items() if name not in tensors}), tensors)


def _modules(trainer: Training) -> dict[str, nn.Module]:
    return {"model": trainer.model, "guide": trainer.guide}


def capture(trainer: Training) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """All that a training is, as plain numbers and copies of tensors."""
    modules = _modules(trainer)
    numbers, random = random_state()
    position, place = trainer.position()
    config = {name: getattr(trainer, name) for name in trainer.COUNTS} | {
        "settled": trainer.settled,
        "num_components": num_components(modules.values()),
        "history": asdict(trainer.history),
        "position": position,
        "growth": None if trainer.growth is None else trainer.growth.state_dict(),
        "rates": [group["lr"] for group in trainer.optimizer.param_groups],
        "random": random,
    }
    tensors = prefixed(
        state=module_state(modules),
        optimizer=optimizer_state(trainer.optimizer, modules),
        random=numbers,
        data=place,
    )
    return config, tensors


def restore_parameters(trainer: Training, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """K, parameters, the optimizer and growth as they were; time and random numbers stay what they are."""
    modules = _modules(trainer)
    K = config["num_components"]
    check(type(K) is int and K >= 1, "num_components >= 1", repr(K))
    more = K - num_components(modules.values())
    plan = plan_modules(modules, parts(tensors, "state"), more)
    fill(plan)
    load_optimizer(trainer.optimizer, modules, parts(tensors, "optimizer"), config["rates"])
    if trainer.growth is not None:
        trainer.growth.load_state_dict(config["growth"])
        trainer.growth.reset()


def _history(trainer: Training, saved: Mapping[str, Any]) -> Any:
    """A history of numbers, and of nothing else."""
    kind = type(trainer.history)
    for name, default in asdict(kind()).items():
        fine = isinstance(saved[name], type(default)) and all(
            isinstance(x, int | float) for x in (saved[name] if isinstance(default, list) else [])
        )
        check(fine, f"numbers in the history of {name}", type(saved[name]).__name__)
    return kind(**saved)


def restore(trainer: Training, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Makes a trainer what :func:`capture` saw."""
    history = _history(trainer, config["history"])
    for name in trainer.COUNTS:
        check(type(config[name]) is int and config[name] >= 0, f"{name} to be a count", repr(config[name]))
    restore_parameters(trainer, config, tensors)
    trainer.set_position(config["position"], parts(tensors, "data"))
    for name in trainer.COUNTS:
        setattr(trainer, name, config[name])
    trainer.settled, trainer.history = bool(config["settled"]), history
    set_random_state(parts(tensors, "random"), config["random"])


class Saver:
    """Saves a trainer when it is time, and brings it back.

    :param trainer: whose state it is
    """

    def __init__(self, trainer: Training, checkpoint: Checkpoint):
        self.trainer, self.checkpoint = trainer, checkpoint
        self.settings = _settings(trainer, checkpoint.about)
        self._step, self._time = trainer.num_steps, time.monotonic()
        sweep(checkpoint.path)
        if checkpoint.resume:
            self.load()
        else:
            self._refuse_to_overwrite()

    def _refuse_to_overwrite(self) -> None:
        path = Path(self.checkpoint.path)
        if not path.exists():
            return
        config, _ = FORMAT.read(path)  # nor is a file that is something else overwritten
        fix = f"Resume it, or delete {path}."
        check(config["state"]["settled"], "no unfinished training", f"one of {config['state']['num_steps']} steps", fix)

    def load(self) -> bool:
        """Goes on from the last good checkpoint; ``False`` if there is none."""
        path = self.checkpoint.path
        found = FORMAT.read_last_good(path)
        if found is None:
            logger.info("no checkpoint at %s: starting from the beginning", path)
            return False
        config, tensors = found
        with reading(path, FORMAT.writer):
            self._compare(config["settings"])
            restore(self.trainer, config["state"], tensors)
        self._step, self._time = self.trainer.num_steps, time.monotonic()
        logger.info("going on: %s", self.trainer.done)
        return True

    def _compare(self, saved: Mapping[str, Any]) -> None:
        fix = "Resume with the settings and data it was started with, or save to another file."
        for part, now in self.settings.items():
            then = saved[part]
            if isinstance(now, dict) and isinstance(then, dict):
                for name in now.keys() | then.keys():
                    same = now.get(name) == then.get(name)
                    check(same, f"{part} {name} = {then.get(name)!r}", repr(now.get(name)), fix, FileError)
            check(now == then, f"the same {part}", "other", fix, FileError)

    def save(self, path: str | os.PathLike | None = None) -> None:
        """Writes a checkpoint now.

        :param path: elsewhere than the usual place, where the one before is kept
        """
        config, tensors = capture(self.trainer)
        place = self.checkpoint.path if path is None else path
        previous = previous_of(place) if path is None else None
        FORMAT.write(place, {"settings": self.settings, "state": config}, tensors, previous)
        if path is None:
            self._step, self._time = self.trainer.num_steps, time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        steps = self.checkpoint.every_steps
        if steps is not None and self.trainer.num_steps - self._step >= steps:
            return True
        return time.monotonic() - self._time >= self.checkpoint.every_seconds

    def interrupt(self) -> None:
        """Stops, and says how to go on."""
        raise Interrupted(
            f"Stopped: {self.trainer.done}. Everything is in {self.checkpoint.path}: do the same again with "
            "resume=True (--resume) to go on."
        )
