"""Finds learners that discount a skill as if it were a single step."""

import sys
import warnings
from functools import cache
from typing import Any

_DEPTH = 40  # calls between a learner and an environment in the same process, at most


def _collecting_learner() -> Any:
    """The Stable-Baselines3 learner that is collecting steps from here, ``None`` if there is none in this process."""
    frame: Any = sys._getframe(1)
    for _ in range(_DEPTH):
        if frame is None:
            return None
        if frame.f_code.co_name == "collect_rollouts":
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None


@cache
def _warn(kind: str) -> None:
    """Warns once for each kind of learner."""
    better = "SMDPReplayBuffer" if kind in ("DQN", "QRDQN", "DDPG", "SAC", "TD3") else "SMDPPPO"
    text = f"{kind} discounts a skill of many steps by γ, as if it were one step, so its values are wrong. Use {better}"
    warnings.warn(f"{text} of pyro_options.rl, which discounts by γ to the power of the duration.", stacklevel=2)


def warn_of_plain_learner() -> None:
    """Warns, once, if the learner that collects steps does not know how long they last.

    Learners whose environments are in other processes are not seen.
    """
    learner = _collecting_learner()
    buffers = [getattr(learner, name, None) for name in ("rollout_buffer", "replay_buffer")]
    known = any(getattr(buffer, "discounts_durations", False) for buffer in buffers)
    if learner is not None and not known:
        _warn(type(learner).__name__)
