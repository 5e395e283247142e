"""Callbacks that read durations, options and frames from ``infos``, and record learning curves."""

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import safe_mean
from tqdm import tqdm

from pyro_options.errors import check


def checked_durations(infos: list[dict[str, Any]], gamma: float, fix: str = "SkillWrapper(gamma=…).") -> np.ndarray:
    """Duration τ of each environment's step, 1 by default; raises if rewards were summed with another γ.

    :param infos: the ``info`` of each environment
    :param gamma: discount of the learner
    :param fix: advice for the error message
    """
    for info in infos:
        discount, duration = info.get("discount"), info.get("duration", 1)
        if discount is not None and duration > 1 and abs(discount - gamma**duration) > 1e-6:
            inside = discount ** (1 / duration)
            check(False, f"skills that discount by the learner's {gamma:g}", f"{inside:g}", fix)
    return np.array([info.get("duration", 1) for info in infos])


class DurationCallback(BaseCallback):
    """Passes the duration of each step to the rollout buffer, and logs the usage of options.

    Stable-Baselines3 adds γ V(terminal) to the reward of a truncated step; for steps with τ > 1, the reward with
    γ^τ V(terminal) is passed to the buffer instead.

    Logs at each rollout: ``options/mean_duration``, ``options/share`` (share of decisions that are options),
    ``options/usage_k`` (share of decisions that are option k, for every k up to the highest seen in this training),
    and the totals ``time/primitive_steps`` and ``time/frames``.
    """

    def _on_rollout_start(self) -> None:
        self._durations: list[np.ndarray] = []
        self._options: list[int] = []

    def _on_step(self) -> bool:
        model: Any = self.model
        infos = self.locals["infos"]
        durations = checked_durations(infos, model.gamma)
        model.rollout_buffer.announce(durations, self._bootstrapped(durations, infos))
        model.num_primitive_steps += int(durations.sum())
        model.num_frames += int(sum(info.get("num_frames", tau) for info, tau in zip(infos, durations)))
        self._durations.append(durations)
        self._options.extend(info.get("option", -1) for info in infos)
        return True

    def _bootstrapped(self, durations: np.ndarray, infos: list[dict[str, Any]]) -> dict[int, float]:
        """Corrected rewards of truncated steps with τ > 1, by environment."""
        model: Any = self.model
        corrected: dict[int, float] = {}
        for index, done in enumerate(self.locals["dones"]):
            last = infos[index].get("terminal_observation")
            if done and durations[index] > 1 and last is not None and infos[index].get("TimeLimit.truncated", False):
                with torch.no_grad():
                    value = model.policy.predict_values(model.policy.obs_to_tensor(last)[0])
                discount = model.gamma ** int(durations[index])
                corrected[index] = float(self.locals["rewards"][index] + discount * value.item())
        return corrected

    def _on_rollout_end(self) -> None:
        model: Any = self.model
        options = np.array(self._options)
        self.logger.record("options/mean_duration", float(np.mean(self._durations)))
        self.logger.record("options/share", float(np.mean(options >= 0)))
        # Options that are no longer used are logged as zero, so that their curves do not just end.
        model.num_options_seen = max(model.num_options_seen, int(options.max()) + 1)
        for k in range(model.num_options_seen):
            self.logger.record(f"options/usage_{k}", float(np.mean(options == k)))
        self.logger.record("time/primitive_steps", model.num_primitive_steps)
        self.logger.record("time/frames", model.num_frames)


class CurveCallback(BaseCallback):
    """Records a learning curve: after each rollout, a row with decisions, frames, and mean return and success rate.

    The means are over the last episodes (100 by default, PPO's ``stats_window_size``), as reported by ``Monitor``,
    which belongs inside the ``SkillWrapper``.

    :param rows: an earlier curve to continue
    """

    def __init__(self, rows: list[dict[str, float]] | None = None):
        super().__init__()
        self.rows = [] if rows is None else list(rows)

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        model: Any = self.model
        row = {"steps": model.num_timesteps, "frames": model.num_frames}
        if model.ep_info_buffer:
            row["episodes"] = len(model.ep_info_buffer)
            row["return"] = float(safe_mean([episode["r"] for episode in model.ep_info_buffer]))
        if model.ep_success_buffer:
            row["success"] = float(safe_mean(model.ep_success_buffer))
        self.rows.append(row)


class ProgressCallback(BaseCallback):
    """Updates a progress bar after each rollout, with the mean return of the last episodes.

    :param bar: counts decisions; it may be shared by several calls of ``learn``
    """

    def __init__(self, bar: tqdm):
        super().__init__()
        self.bar = bar

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        model: Any = self.model
        if model.ep_info_buffer:
            mean = safe_mean([episode["r"] for episode in model.ep_info_buffer])
            self.bar.set_postfix({"return": f"{mean:.2f}"}, refresh=False)
        # the last rollout may exceed the total, and tqdm would then drop the total from the bar
        self.bar.update(min(model.num_timesteps, self.bar.total) - self.bar.n)
