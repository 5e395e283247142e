"""Replay buffer for steps of any duration: (s, a, s', R, τ)."""

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from pyro_options.errors import InputError, check

from .callbacks import checked_durations

_FIX = 'Pass the same to SkillWrapper(gamma=…), DQN(gamma=…) and replay_buffer_kwargs={"gamma": …}.'


class SMDPReplayBuffer(ReplayBuffer):
    r"""A replay buffer whose samples have ``discounts`` :math:`\gamma^\tau`, for DQN with skills.

    DQN's targets are then :math:`R + \gamma^\tau \max_a Q(s', a)`.

    Example::

        DQN("MlpPolicy", env, gamma=0.99,
            replay_buffer_class=SMDPReplayBuffer, replay_buffer_kwargs={"gamma": 0.99})

    :param gamma: discount of the learner and of the ``SkillWrapper``; required. Another discount in the wrapper is an
        error. DQN's own ``gamma`` cannot be checked; DQN ignores it if samples have ``discounts``
    :param n_steps: must be 1: n-step returns are not supported
    """

    discounts_durations = True  # which SkillWrapper asks of the buffer of a learner
    durations: np.ndarray  # (buffer_size, n_envs)

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        *args: Any,
        gamma: float | None = None,  # required; checked below, since Stable-Baselines3 would raise a bare TypeError
        n_steps: int = 1,
        **kwargs: Any,
    ):
        if gamma is None or not 0 < gamma <= 1:
            raise InputError(f"Expected gamma in (0, 1] but got {gamma}. {_FIX}")
        check(n_steps == 1, "n_steps=1", n_steps, "A step that lasts is several already.")
        nested = isinstance(observation_space, spaces.Dict)
        fix = "Put gymnasium.wrappers.FlattenObservation around, or use SMDPPPO."
        check(not nested, "observations in one array", observation_space, fix)
        super().__init__(buffer_size, observation_space, action_space, *args, **kwargs)
        check(not self.optimize_memory_usage, "optimize_memory_usage=False", True)
        self.gamma = gamma
        self.durations = np.ones((self.buffer_size, self.n_envs), np.int32)

    def add(self, obs, next_obs, action, reward, done, infos: list[dict[str, Any]]) -> None:
        self.durations[self.pos] = checked_durations(infos, self.gamma, _FIX)
        super().add(obs, next_obs, action, reward, done, infos)

    def _get_samples(self, batch_inds: np.ndarray, env=None) -> ReplayBufferSamples:
        at = batch_inds, np.random.randint(0, high=self.n_envs, size=(len(batch_inds),))
        discounts = (self.gamma ** self.durations[at].astype(np.float64)).astype(np.float32)
        ended = self.dones[at] * (1 - self.timeouts[at])  # truncation by a time limit is not a terminal state
        rewards = self._normalize_reward(self.rewards[at].reshape(-1, 1), env)
        return ReplayBufferSamples(
            observations=self.to_torch(self._normalize_obs(self.observations[at], env)),  # type: ignore[arg-type]
            actions=self.to_torch(self.actions[at]),
            next_observations=self.to_torch(self._normalize_obs(self.next_observations[at], env)),  # type: ignore[arg-type]
            dones=self.to_torch(ended.reshape(-1, 1)),
            rewards=self.to_torch(rewards),
            discounts=self.to_torch(discounts.reshape(-1, 1)),
        )
