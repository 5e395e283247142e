"""Policies that demonstrate: functions, objects with ``predict``, and saved Stable-Baselines3 agents."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pyro_options.errors import FileError, check, choice, require

#: algorithms of Stable-Baselines3; the file names of its zoo start with one of them, such as ``ppo-CartPole-v1.zip``
ALGORITHMS = ("a2c", "ddpg", "dqn", "ppo", "sac", "td3")

#: training schedules and buffers are replaced: acting does not need them, and older versions pickled them differently
_UNUSED: dict[str, Any] = {
    "learning_rate": 0.0,
    "lr_schedule": lambda _: 0.0,
    "clip_range": lambda _: 0.0,
    "exploration_schedule": lambda _: 0.0,
    "buffer_size": 1,
    "optimize_memory_usage": False,
}


@runtime_checkable
class Predictor(Protocol):
    """The policy interface of Stable-Baselines3; ``state`` is the recurrent state, if any."""

    def predict(self, observation, state=None, episode_start=None, deterministic=True) -> tuple[Any, Any]:
        """The action, and the next recurrent state."""


class _Function:
    """Wraps a function of the observation as a policy."""

    def __init__(self, function: Callable):
        self.function = function

    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        return self.function(observation), state


def as_policy(policy: "Predictor | Callable | str | os.PathLike") -> Predictor:
    """A policy from an object with ``predict``, a function, or a source for :func:`load_policy`."""
    if isinstance(policy, str | os.PathLike):
        return load_policy(policy)
    if isinstance(policy, Predictor):
        return policy
    check(callable(policy), "a function, an object with predict, a zip file or a hub id", repr(policy))
    return _Function(policy)


def load_policy(
    source: str | os.PathLike, algorithm: str | None = None, filename: str | None = None, device: str = "auto"
) -> Predictor:
    """Loads an agent saved by Stable-Baselines3, from a file or from the Hugging Face hub.

    .. warning:: These zip files hold pickles, and loading a pickle can run arbitrary code. Load only files from
        sources that you trust.

    Example::

        load_policy("agents/ppo-CartPole-v1.zip")
        load_policy("sb3/ppo-BreakoutNoFrameskip-v4")           # needs the extra "hub"

    :param source: path of a zip file, or an id ``owner/name`` on the hub
    :param algorithm: ``a2c``, ``ddpg``, ``dqn``, ``ppo``, ``sac`` or ``td3``; by default read from the file name
    :param filename: file in the hub repository, by default ``name.zip``
    """
    path = Path(source)
    if not path.is_file():
        hub_id = isinstance(source, str) and re.fullmatch(r"[\w.-]+/[\w.-]+", source) and path.suffix != ".zip"
        fix = "Check the path; a hub id looks like sb3/ppo-CartPole-v1."
        check(bool(hub_id), "a zip file or a hub id", f"{os.fspath(source)}, which is neither", fix)
        filename = f"{path.name}.zip" if filename is None else filename
        path = Path(require("huggingface_sb3", "hub").load_from_hub(repo_id=source, filename=filename))
    algorithm = path.name.split("-")[0].removesuffix(".zip").lower() if algorithm is None else str(algorithm).lower()
    choice(algorithm, f"the algorithm of {path.name}, the argument of load_policy,", ALGORITHMS)
    import stable_baselines3

    try:
        return getattr(stable_baselines3, algorithm.upper()).load(path, device=device, custom_objects=_UNUSED)
    except Exception as error:  # unpickling can raise anything
        raise FileError(
            f"{path}: Expected an agent that Stable-Baselines3 saved, an {algorithm.upper()}, but got "
            f"{type(error).__name__}: {error}. Save it again, or pass the algorithm that it is, algorithm=…."
        ) from error
