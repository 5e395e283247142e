"""PPO with checkpoints, without pickle: a run that is interrupted and resumed gives the same result."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor
from tqdm import tqdm

from pyro_options.errors import FileError, check
from pyro_options.persistence import serialization
from pyro_options.persistence.checkpoint import Checkpoint
from pyro_options.persistence.resumable import ResumableLoop
from pyro_options.persistence.storage import Format

from .callbacks import CurveCallback, ProgressCallback
from .ppo import SMDPPPO

FORMAT = Format("pyro_options.PPO", 2, "PartwiseLearning")
_BROKEN = EOFError, ConnectionError  # errors of a pipe to a worker process that has exited
_COUNTS = ("num_timesteps", "num_primitive_steps", "num_frames", "_n_updates", "_episode_num")


def _check_parts(learner: SMDPPPO) -> None:
    """Raises for settings whose state would be lost between parts: schedules and ``VecNormalize``."""
    rates: dict[str, Any] = {"learning_rate": learner.lr_schedule, "clip_range": learner.clip_range}
    rates["clip_range_vf"] = learner.clip_range_vf
    for name, rate in rates.items():
        values = [] if rate is None else [rate(left) for left in np.linspace(1, 0, 11)]
        got = f"one that goes from {values[0]:g} to {values[-1]:g}" if values else None
        check(len(set(values)) <= 1, f"a constant {name}", got, "Every part would be a whole schedule: pass a number.")
    fix = "Every part would forget its statistics: normalize by fixed numbers, in a wrapper."
    check(learner.get_vec_normalize_env() is None, "environments without VecNormalize", "some with", fix)


class _PartwiseLoop(ResumableLoop):
    """The loop over the parts of one run.

    :param plan: its settings
    :param total_steps: total number of decisions
    """

    FORMAT = FORMAT
    LOST_WORKERS = _BROKEN

    def __init__(self, plan: "PartwiseLearning", total_steps: int):
        self.plan, self.total_steps = plan, total_steps
        self.envs: VecEnv | None = plan.make_envs()
        self.rows: list[dict[str, float]] = []
        self.stopped, self.num_steps = False, 0  # stopped by the callback; decisions in completed parts
        try:
            self.learner = plan.make_learner(self.envs)
            _check_parts(self.learner)
            self.save_to(Checkpoint(plan.path, plan.resume, every_seconds=0.0, about=plan.about))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the environments that are open."""
        if self.envs is not None:
            with suppress(*_BROKEN):  # workers that have exited cannot be closed; the original error matters more
                self.envs.close()
            self.envs = None

    @property
    def finished(self) -> bool:
        return self.stopped or self.num_steps >= self.total_steps

    @property
    def progress_message(self) -> str:
        return f"{self.num_steps} of {self.total_steps} decisions are done"

    def settings(self) -> dict[str, Any]:
        return {"parts": {"seed": self.plan.seed, "every": self.plan.every}}

    def capture(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        learner = self.learner
        modules, optimizer = {"policy": learner.policy}, learner.policy.optimizer
        config: dict[str, Any] = {name: int(getattr(learner, name)) for name in _COUNTS}
        config["rates"] = [group["lr"] for group in optimizer.param_groups]
        # Only return and length: Monitor's wall-clock times differ between runs, and its keywords may be strings.
        config["episodes"] = [{key: float(one[key]) for key in ("r", "l")} for one in learner.ep_info_buffer or ()]
        config["successes"] = [float(one) for one in learner.ep_success_buffer or ()]
        tensors = serialization.prefixed(
            state=serialization.module_state(modules), optimizer=serialization.optimizer_state(optimizer, modules)
        )
        return {"learner": config, "rows": self.rows, "stopped": self.stopped}, tensors

    def restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        learner, saved = self.learner, config["learner"]
        modules = {"policy": learner.policy}
        serialization.fill(serialization.plan_modules(modules, serialization.parts(tensors, "state")))
        serialization.load_optimizer(
            learner.policy.optimizer, modules, serialization.parts(tensors, "optimizer"), saved["rates"]
        )
        for name in _COUNTS:
            setattr(learner, name, saved[name])
        size = learner._stats_window_size
        learner.ep_info_buffer = deque(saved["episodes"], maxlen=size)
        learner.ep_success_buffer = deque(saved["successes"], maxlen=size)
        count = learner.num_timesteps
        least = count - learner.n_steps * learner.n_envs  # a run ends with the rollout that reaches its budget
        expected = f"total_steps > {least}, as {self.plan.path} has learned for {count},"
        fix = "Save a shorter run to another file."
        check(self.total_steps > least, expected, self.total_steps, fix, FileError)
        self.rows, self.stopped, self.num_steps = config["rows"], config["stopped"], count

    def steps(self) -> Iterator[None]:
        """Yields between any two parts."""
        with self._bar() as bar:
            while not self.finished:
                self._part(bar)
                if not self.finished:
                    yield

    def _bar(self) -> tqdm:
        """A progress bar of decisions, starting at those already made; below another bar it disappears when full."""
        about = {"unit": "decision", "unit_scale": True, "dynamic_ncols": True, "leave": None}
        return tqdm(total=self.total_steps, initial=self.num_steps, disable=not self.plan.progress, **about)

    def _part(self, bar: tqdm) -> None:
        plan, learner = self.plan, self.learner
        self.envs = plan.make_envs() if self.envs is None else self.envs
        learner.set_env(self.envs, force_reset=True)
        sequence = np.random.SeedSequence([plan.seed, learner.num_timesteps])
        learner.set_random_seed(int(sequence.generate_state(1)[0] >> 1))
        goal = min(learner.num_timesteps + plan.every, self.total_steps)
        callback = plan.make_callback(self.rows)
        watchers = [callback, ProgressCallback(bar)]
        learner.learn(goal - learner.num_timesteps, watchers, plan.log_interval, reset_num_timesteps=False)
        self.envs.close()
        self.envs = None
        # Callbacks run before their step is added to the buffer, so a rollout that one stopped is not full. The number
        # of decisions would not show it: a callback may also stop the rollout that reaches the goal.
        self.rows, self.stopped = callback.rows, not learner.rollout_buffer.full
        self.num_steps = learner.num_timesteps


@dataclass(frozen=True)
class PartwiseLearning:
    """Trains :class:`SMDPPPO` in parts of ``every`` decisions, with a checkpoint after each part.

    Environments cannot be saved in the middle of an episode. So every part starts with new environments and with a seed
    that depends only on ``seed`` and the number of decisions so far, whether or not the run was interrupted. A run that
    was killed and resumed ends with the same parameters, bit for bit, as an uninterrupted one. Episodes that are
    unfinished at the end of a part are cut.

    :param path: checkpoint file; the previous checkpoint is kept beside it, as ``….previous``
    :param make_envs: makes the environments of a part; without ``VecNormalize``, whose statistics would be lost between
        parts. Workers of a ``SubprocVecEnv`` should ignore ``SIGINT``: Ctrl-C reaches them too, and if they exit the
        current part is lost
    :param make_learner: makes a :class:`SMDPPPO` for given environments, with a constant learning rate and clip range
    :param make_callback: makes the callback that extends a given learning curve; it may stop the training
    :param every: minimum number of decisions in a part
    :param seed: of all parts
    :param resume: resume from ``path`` if it exists. Without it, an unfinished run at ``path`` is an error
    :param about: further settings that must not differ when resuming, as JSON values
    :param log_interval: rollouts between logs of the learner (``verbose``, ``tensorboard_log``), counted within each
        part; ``None`` for no logs. Use a separate ``tensorboard_log`` for every run
    :param progress: show a progress bar over all parts, with the mean return of the last episodes
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
        """Trains for ``total_steps`` decisions, or until the callback stops it.

        :returns: the learner and its learning curve
        """
        loop = _PartwiseLoop(self, total_steps)
        try:
            loop.drive()
        finally:
            loop.close()
        return loop.learner, loop.rows
