"""What a discovery takes over from the checkpoint that it resumes."""

import os
from dataclasses import replace

from pyro_options.errors import check
from pyro_options.infer.trainer import Trainer
from pyro_options.persistence.checkpoint import Checkpoint
from pyro_options.persistence.storage import check_writable

from .config import MethodConfig


def checkpoint_to(given: str | os.PathLike | Checkpoint | None, resume: bool) -> Checkpoint | None:
    """The checkpoint to save to, with ``resume`` set."""
    if given is None:
        check(not resume, "a checkpoint to resume", None, "Pass checkpoint=…, the file that the training was saved in.")
        return None
    given = given if isinstance(given, Checkpoint) else Checkpoint(given)
    given = replace(given, resume=resume or given.resume)
    if not given.resume:
        check_writable(given.path)  # before hours of search
    return given


def saved_restarts(saved: Checkpoint | None, default: int) -> int:
    """The number of restarts of the training to resume: an older one may have had another default."""
    before = None if saved is None else saved.settings(Trainer.FORMAT)
    return default if before is None else before["about"].get("restarts", 1)


def saved_capacity(saved: Checkpoint | None, described: MethodConfig) -> MethodConfig:
    """The settings with the capacity that an interrupted training had chosen, if it is to be resumed."""
    found = None if saved is None else saved.settings(Trainer.FORMAT)
    if not described.searches or found is None:
        return described
    method = found["about"].get("method", {})
    return replace(described, hidden=tuple(method.get("hidden", ())), weight_scale=method.get("weight_scale"))


def saved_interval(saved: Checkpoint | None) -> int | None:
    """Updates between growth checks of the training to resume: they must stay the same if it gets more epochs."""
    growth = None if saved is None else (saved.settings(Trainer.FORMAT) or {}).get("growth")
    return None if growth is None else growth["every"]
