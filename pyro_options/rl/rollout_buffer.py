r"""Rollout buffers for steps of duration τ, with generalized advantage estimation for semi-Markov steps.

.. math:: \delta_t = R_t + \gamma^{\tau_t} V(s_{t+1}) - V(s_t), \qquad
    A_t = \delta_t + \gamma^{\tau_t} \lambda A_{t+1}
"""

from collections.abc import Mapping

import numpy as np
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from torch import Tensor


class _Durations(RolloutBuffer):
    """Stores durations, and discounts by γ^τ in the advantages.

    Stable-Baselines3 does not pass ``infos`` to the buffer, so a callback calls :meth:`announce` before each step is
    added.
    """

    discounts_durations = True  # which SkillWrapper asks of the buffer of a learner
    durations: np.ndarray  # (n_steps, n_envs) in environment steps

    def reset(self) -> None:
        super().reset()
        self.durations = np.ones((self.buffer_size, self.n_envs))
        self._bootstrapped: Mapping[int, float] = {}

    def announce(self, durations: np.ndarray, bootstrapped: Mapping[int, float]) -> None:
        """Sets the durations of the step that is added next.

        :param durations: τ in each environment, ``(n_envs,)``
        :param bootstrapped: environment -> reward to store instead of the one passed to :meth:`add`
        """
        self.durations[self.pos] = durations
        self._bootstrapped = bootstrapped

    def add(self, obs, action, reward, *args, **kwargs) -> None:
        if self._bootstrapped:
            reward = np.array(reward)
            for index, value in self._bootstrapped.items():
                reward[index] = value
            self._bootstrapped = {}
        super().add(obs, action, reward, *args, **kwargs)

    def compute_returns_and_advantage(self, last_values: Tensor, dones: np.ndarray) -> None:
        # In double precision until the conversion, so that durations of 1 give exactly the float32 γ and γλ of PPO.
        exact = self.gamma**self.durations
        discounts, decays = exact.astype(np.float32), (exact * self.gae_lambda).astype(np.float32)
        alive = 1 - np.concatenate([self.episode_starts[1:], dones[None].astype(np.float32)])
        following = np.concatenate([self.values[1:], last_values.detach().cpu().numpy().reshape(1, -1)])
        advantage = np.zeros(self.n_envs, np.float32)
        for step in reversed(range(self.buffer_size)):
            target = self.rewards[step] + discounts[step] * following[step] * alive[step]
            advantage = target - self.values[step] + decays[step] * alive[step] * advantage
            self.advantages[step] = advantage
        self.returns = self.advantages + self.values


class SMDPRolloutBuffer(_Durations):
    """:class:`RolloutBuffer` for steps of any duration."""


class SMDPDictRolloutBuffer(_Durations, DictRolloutBuffer):
    """:class:`DictRolloutBuffer` for steps of any duration."""
