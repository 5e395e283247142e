"""PPO in parts, with a checkpoint after each: stop it anywhere, go on to the same numbers. No pickle."""

import logging
import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor
from tqdm import tqdm

from pyro_options.errors import FileError, Interrupted, check
from pyro_options.persistence.checkpoint import plain
from pyro_options.persistence.interrupt import postponing_interrupts
from pyro_options.persistence.serialization import (
    fill,
    load_optimizer,
    module_state,
    optimizer_state,
    parts,
    plan_modules,
    prefixed,
)
from pyro_options.persistence.storage import Format, previous_of, reading, sweep

from .callbacks import CurveCallback, ProgressCallback
from .ppo import SMDPPPO

logger = logging.getLogger(__name__)

FORMAT = Format("pyro_options.PPO", 1, "PartwiseLearning")
_BROKEN = EOFError, ConnectionError  # what a pipe to a process that is gone says
_COUNTS = ("num_timesteps", "num_primitive_steps", "num_frames", "_n_updates", "_episode_num")


def capture(learner: SMDPPPO) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """All that a learner is between two parts."""
    modules = {"policy": learner.policy}
    optimizer = learner.policy.optimizer
    config: dict[str, Any] = {name: int(getattr(learner, name)) for name in _COUNTS}
    config["rates"] = [group["lr"] for group in optimizer.param_groups]
    # Return and length alone: Monitor's clock would differ from run to run, and its keywords may be texts.
    config["episodes"] = [{key: float(one[key]) for key in ("r", "l")} for one in learner.ep_info_buffer or ()]
    config["successes"] = [float(one) for one in learner.ep_success_buffer or ()]
    return config, prefixed(state=module_state(modules), optimizer=optimizer_state(optimizer, modules))


def restore(learner: SMDPPPO, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Makes a new learner what :func:`capture` saw."""
    modules = {"policy": learner.policy}
    fill(plan_modules(modules, parts(tensors, "state")))
    load_optimizer(learner.policy.optimizer, modules, parts(tensors, "optimizer"), config["rates"])
    for name in _COUNTS:
        setattr(learner, name, config[name])
    size = learner._stats_window_size
    learner.ep_info_buffer = deque(config["episodes"], maxlen=size)
    learner.ep_success_buffer = deque(config["successes"], maxlen=size)


def _check_parts(learner: SMDPPPO) -> None:
    """Refuses what a part would begin anew."""
    rates: dict[str, Any] = {"learning_rate": learner.lr_schedule, "clip_range": learner.clip_range}
    rates["clip_range_vf"] = learner.clip_range_vf
    for name, rate in rates.items():
        values = [] if rate is None else [rate(left) for left in np.linspace(1, 0, 11)]
        got = f"one that goes from {values[0]:g} to {values[-1]:g}" if values else None
        check(len(set(values)) <= 1, f"a constant {name}", got, "Every part would be a whole schedule: pass a number.")
    fix = "Every part would forget its statistics: normalize by fixed numbers, in a wrapper."
    check(learner.get_vec_normalize_env() is None, "environments without VecNormalize", "some with", fix)


@dataclass(frozen=True)
class PartwiseLearning:
    """Learns in parts of ``every`` decisions, each with new environments and random numbers of its own.

    An environment cannot be saved in the middle of an episode. So every part starts with a reset and a seed that only
    depends on ``seed`` and on the decisions so far, whether the run was stopped before it or not: a run that was killed
    and resumed ends with the same bytes as one that was not. The episodes under way at the end of a part are cut.

    :param path: file of the last checkpoint; the one before it is kept beside it, as ``….previous``
    :param make_envs: new environments, the same each time; without ``VecNormalize``, whose statistics would be lost
        with every part. Processes of a ``SubprocVecEnv`` should ignore Ctrl-C (``SIGINT``), which reaches them too:
        without them the part under way is lost
    :param make_learner: a new :class:`SMDPPPO` for given environments, with constant learning and clip rates
    :param make_callback: given the learning curve so far, what records it; it may stop the learning
    :param every: decisions in a part, at least
    :param resume: go on from ``path`` if there is something; otherwise it is overwritten
    :param about: what must be the same to go on, in plain numbers and texts
    :param log_interval: rollouts between two logs of the learner (``verbose``, ``tensorboard_log``), counted anew in
        each part; ``None`` for no logs. Every run needs a ``tensorboard_log`` of its own
    :param progress: show a bar over all parts, with the mean return of the last episodes
    """

    path: str | os.PathLike
    make_envs: Callable[[], VecEnv]
    make_learner: Callable[[VecEnv], SMDPPPO]
    make_callback: Callable[[list[dict[str, float]]], CurveCallback] = CurveCallback
    every: int = 50_000
    seed: int = 0
    resume: bool = True
    about: Mapping[str, Any] = field(default_factory=dict)
    log_interval: int | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        check(self.every >= 1, "every >= 1", self.every)
        check(self.log_interval is None or self.log_interval >= 1, "log_interval >= 1", self.log_interval)
        parent = Path(self.path).parent
        check(parent.is_dir(), "a folder to save checkpoints in", repr(str(parent)), "Make it first.")

    def run(self, total_steps: int) -> tuple[SMDPPPO, list[dict[str, float]]]:
        """Learns until ``total_steps`` decisions, or until the callback has had enough.

        :returns: the learner and its learning curve
        """
        first = self.make_envs()
        envs: VecEnv | None = first
        try:
            learner, rows, stopped = self._start(self.make_learner(first), total_steps)
            with postponing_interrupts() as pause, self._bar(learner, total_steps) as bar:
                while learner.num_timesteps < total_steps and not stopped:
                    saved = learner.num_timesteps
                    try:
                        envs = self.make_envs() if envs is None else envs
                        rows, stopped = self._part(learner, envs, rows, total_steps, bar)
                    except _BROKEN as error:
                        if not pause.requested:
                            raise
                        # Ctrl-C ended the environments' processes: the part is lost, the ones before it are not.
                        raise self._interrupted(saved, total_steps) from error
                    envs.close()
                    envs = None
                    self._save(learner, rows, stopped)
                    if pause.requested:
                        raise self._interrupted(learner.num_timesteps, total_steps)
        finally:
            if envs is not None:
                with suppress(*_BROKEN):  # processes that are gone cannot be closed, and what ended them says more
                    envs.close()
        return learner, rows

    def _interrupted(self, saved: int, total_steps: int) -> Interrupted:
        return Interrupted(
            f"Stopped after {saved} of {total_steps} decisions. Everything is in {self.path}: do the same again with "
            "resume=True (--resume) to go on."
        )

    def _bar(self, learner: SMDPPPO, total_steps: int) -> tqdm:
        """A bar of decisions that begins where the learner is; below another one it goes when it is full."""
        about = {"unit": "decision", "unit_scale": True, "dynamic_ncols": True, "leave": None}
        return tqdm(total=total_steps, initial=learner.num_timesteps, disable=not self.progress, **about)

    def _part(self, learner: SMDPPPO, envs: VecEnv, rows: list, total_steps: int, bar: tqdm) -> tuple[list, bool]:
        """One part; returns the curve, and whether the callback stopped it."""
        learner.set_env(envs, force_reset=True)
        sequence = np.random.SeedSequence([self.seed, learner.num_timesteps])
        learner.set_random_seed(int(sequence.generate_state(1)[0] >> 1))
        goal = min(learner.num_timesteps + self.every, total_steps)
        callback = self.make_callback(rows)
        watchers = [callback, ProgressCallback(bar)]
        learner.learn(goal - learner.num_timesteps, watchers, self.log_interval, reset_num_timesteps=False)
        # A callback speaks before its step is added, so a rollout that it stopped lacks at least that one. Decisions
        # would not tell: it may stop in the rollout that reaches the goal.
        return callback.rows, not learner.rollout_buffer.full

    def _start(self, learner: SMDPPPO, total_steps: int) -> tuple[SMDPPPO, list[dict[str, float]], bool]:
        """A learner as it was saved, if it was."""
        _check_parts(learner)
        sweep(self.path)
        found = FORMAT.read_last_good(self.path) if self.resume else None
        if found is None:
            return learner, [], False
        config, tensors = found
        with reading(self.path, FORMAT.writer):
            now = plain(self.about) | {"seed": self.seed, "every": self.every}
            fix = "Resume with the settings it was started with, or save to another file."
            for name in now.keys() | config["about"].keys():
                then = config["about"].get(name)
                check(now.get(name) == then, f"{name} = {then!r}", repr(now.get(name)), fix, FileError)
            restore(learner, config["learner"], tensors)
        count = learner.num_timesteps
        least = count - learner.n_steps * learner.n_envs  # a run ends with the rollout in which it has had enough
        expected = f"total_steps > {least}, as {self.path} has learned for {count},"
        check(total_steps > least, expected, total_steps, "Save a shorter run to another file.", FileError)
        logger.info("going on from decision %d", learner.num_timesteps)
        return learner, config["rows"], config["stopped"]

    def _save(self, learner: SMDPPPO, rows: list[dict[str, float]], stopped: bool) -> None:
        config, tensors = capture(learner)
        about = plain(self.about) | {"seed": self.seed, "every": self.every}
        saved = {"about": about, "learner": config, "rows": rows, "stopped": stopped}
        FORMAT.write(self.path, saved, tensors, previous_of(self.path))
