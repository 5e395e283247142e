"""PPO for semi-Markov decision processes."""

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
    """The ``callback`` argument of ``learn`` as a list."""
    if callback is None:
        return []
    if isinstance(callback, list):
        return callback
    return [callback if isinstance(callback, BaseCallback) else ConvertCallback(callback)]


class SMDPPPO(PPO):
    r"""Stable-Baselines3's PPO for steps of any duration, such as those of a :class:`~pyro_options.envs.SkillWrapper`.

    It has the arguments and the training loop of PPO, but discounts a step of duration τ by :math:`\gamma^\tau`: in the
    advantages, and in the bootstrapped value of a truncated episode. If every step has duration 1, the results are
    those of PPO, bit for bit. Steps (``total_timesteps``, ``n_steps``) count decisions; ``num_primitive_steps`` and
    ``num_frames`` count steps and frames of the environment.

    With ``VecNormalize``, pass ``norm_reward=False``: its running estimate of returns discounts every decision by γ,
    whatever its duration.

    ``Monitor`` belongs inside the ``SkillWrapper``. ``make_vec_env`` adds a ``Monitor`` to the environment that it
    makes, so pass the skills to it as ``wrapper_class=SkillWrapper, wrapper_kwargs={"skills": skills}``.

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
        """Trains like PPO; ``total_timesteps`` counts decisions."""
        if reset_num_timesteps:
            self.num_primitive_steps = self.num_frames = self.num_options_seen = 0
        callbacks: list[BaseCallback] = [DurationCallback(), *_as_list(callback)]
        # PPO annotates log_interval as int, but the method that it calls accepts None for no logs.
        interval: Any = log_interval
        return super().learn(total_timesteps, callbacks, interval, tb_log_name, reset_num_timesteps, progress_bar)
