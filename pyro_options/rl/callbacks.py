"""What Stable-Baselines3 tells only its callbacks: durations, options, frames."""

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import safe_mean
from tqdm import tqdm

from pyro_options.errors import check


def checked_durations(infos: list[dict[str, Any]], gamma: float, fix: str = "SkillWrapper(gamma=…).") -> np.ndarray:
    """τ of each environment's step, 1 where none is given; refuses rewards that were summed with another γ."""
    for info in infos:
        discount, duration = info.get("discount"), info.get("duration", 1)
        if discount is not None and duration > 1 and abs(discount - gamma**duration) > 1e-6:
            inside = discount ** (1 / duration)
            check(False, f"skills that discount by the learner's {gamma:g}", f"{inside:g}", fix)
    return np.array([info.get("duration", 1) for info in infos])


class DurationCallback(BaseCallback):
    """Tells the rollout buffer how long each step lasted, and logs how options are used.

    The time-limit bootstrap of Stable-Baselines3 adds γ V(terminal) to the reward of a step that was cut; where the
    step lasted longer the right reward, with γ^τ V(terminal), is handed to the buffer.

    It logs at each rollout: ``options/mean_duration``, ``options/share`` (of decisions that are options),
    ``options/usage_k`` (of decisions that are option k, for every k up to the highest that this training has seen),
    ``time/primitive_steps`` and ``time/frames`` so far.
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
        """Rewards of longer steps that a time limit cut."""
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
        # An option that fell out of use is logged as zero: a curve without it would look unfinished.
        model.num_options_seen = max(model.num_options_seen, int(options.max()) + 1)
        for k in range(model.num_options_seen):
            self.logger.record(f"options/usage_{k}", float(np.mean(options == k)))
        self.logger.record("time/primitive_steps", model.num_primitive_steps)
        self.logger.record("time/frames", model.num_frames)


class CurveCallback(BaseCallback):
    """Records a learning curve: at the end of each rollout, steps, frames and how the last 100 episodes went.

    Returns and lengths are those of ``Monitor``, which belongs inside the ``SkillWrapper``.

    :param rows: continue an earlier curve
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
    """Moves a bar at the end of each rollout, and says how the last episodes went.

    :param bar: counts decisions, and may outlive a call of ``learn``
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
        # the last rollout may go beyond, and a bar that is more than full would be drawn as if it had no end
        self.bar.update(min(model.num_timesteps, self.bar.total) - self.bar.n)
