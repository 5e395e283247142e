"""Proximal policy optimization over skills."""

from typing import Any

from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback, ConvertCallback
from stable_baselines3.common.type_aliases import MaybeCallback

from pyro_options.errors import check

from .callbacks import DurationCallback
from .rollout_buffer import SMDPDictRolloutBuffer, SMDPRolloutBuffer


def _as_list(callback: MaybeCallback) -> list[BaseCallback]:
    """Whatever ``learn`` takes as callbacks, as a list of them."""
    if callback is None:
        return []
    if isinstance(callback, list):
        return callback
    return [callback if isinstance(callback, BaseCallback) else ConvertCallback(callback)]


class SMDPPPO(PPO):
    r"""Stable-Baselines3's PPO for steps that last, as those of a :class:`~pyro_options.envs.SkillWrapper` do.

    It takes the arguments of PPO and trains by PPO's own loop; what differs is that a step of duration τ is discounted
    by :math:`\gamma^\tau`, in the advantages and where a time limit cuts an episode. Where every step lasts 1 its
    numbers are those of PPO to the last bit. Steps (``total_timesteps``, ``n_steps``) count decisions;
    ``num_primitive_steps`` and ``num_frames`` count what the environment saw.

    ``VecNormalize`` may be put around, but its running estimate of returns discounts each decision by γ alone; pass
    ``norm_reward=False``.

    ``Monitor`` goes inside the skills. ``make_vec_env`` would put another around what the function returns; it takes
    skills as ``wrapper_class=SkillWrapper, wrapper_kwargs={"skills": skills}``.

    Example::

        def make():
            return SkillWrapper(Monitor(gym.make("pyro_options/Switches-v0")), skills)

        SMDPPPO("MlpPolicy", DummyVecEnv([make] * 8)).learn(100_000)
    """

    num_primitive_steps: int = 0
    num_frames: int = 0
    num_options_seen: int = 0

    def _setup_model(self) -> None:
        nested = isinstance(self.observation_space, spaces.Dict)
        suits: type[RolloutBuffer] = SMDPDictRolloutBuffer if nested else SMDPRolloutBuffer
        given = suits if self.rollout_buffer_class is None else self.rollout_buffer_class
        expected = f"a buffer of durations for observations in {'a dictionary' if nested else 'one array'}"
        check(issubclass(given, suits), expected, given.__name__, f"Derive yours from {suits.__name__}.")
        self.rollout_buffer_class = given
        super()._setup_model()

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 1,
        tb_log_name: str = "SMDPPPO",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ):
        """See PPO; ``total_timesteps`` counts decisions."""
        if reset_num_timesteps:
            self.num_primitive_steps = self.num_frames = self.num_options_seen = 0
        callbacks: list[BaseCallback] = [DurationCallback(), *_as_list(callback)]
        # PPO's own type is narrower than that of the method it calls, which takes None for no log.
        interval: Any = log_interval
        return super().learn(total_timesteps, callbacks, interval, tb_log_name, reset_num_timesteps, progress_bar)
