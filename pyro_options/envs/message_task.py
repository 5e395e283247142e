"""The paper's proof-of-concept task: remember a message and emit it at the end of the episode."""

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from pyro_options.data.collection import collect
from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check


class MessageEnv(gym.Env):
    """The agent observes a message at t = 0 and must emit it at the last step.

    No Markov policy solves it, since the message is observed only at t = 0. A hierarchical policy does, with one option
    per message that is chosen at the start and does not terminate.

    ## Action Space
    ``Discrete(num_messages)``: the message to emit.

    ## Observation Space
    ``Box`` of shape ``(2,)``: the time t, and the message m at t = 0 but -1 afterwards.

    ## Rewards
    1 if the action at the last step equals m, otherwise 0.

    ## Episode End
    Terminates after ``num_steps`` actions.

    :param num_messages: size of the vocabulary
    :param num_steps: actions per episode, 5 in the paper
    """

    metadata = {"render_modes": ["ansi"]}

    def __init__(self, num_messages: int = 6, num_steps: int = 5, render_mode: str | None = None):
        check(num_messages >= 2, "num_messages >= 2", num_messages)
        check(num_steps >= 2, "num_steps >= 2", num_steps, "With one step there is nothing to remember.")
        check(render_mode in (None, "ansi"), 'render_mode None or "ansi"', repr(render_mode))
        self.num_messages, self.num_steps, self.render_mode = num_messages, num_steps, render_mode
        self.action_space = gym.spaces.Discrete(num_messages)
        high = np.array([num_steps, num_messages - 1], dtype=np.float32)
        self.observation_space = gym.spaces.Box(np.array([0, -1], dtype=np.float32), high)
        self._message, self._time = 0, 0
        self._said: list[int] = []

    def _observation(self) -> np.ndarray:
        return np.array([self._time, self._message if self._time == 0 else -1], dtype=np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._message = int(self.np_random.integers(self.num_messages))
        self._time, self._said = 0, []
        return self._observation(), {"message": self._message}

    def step(self, action):
        check(self._time < self.num_steps, "a running episode", "a finished one", "Call reset() first.")
        check(self.action_space.contains(action), f"an action in [0, {self.num_messages - 1}]", action)
        self._said.append(int(action))
        self._time += 1
        terminated = self._time == self.num_steps
        reward = float(terminated and action == self._message)
        return self._observation(), reward, terminated, False, {"message": self._message}

    def render(self):
        return f"told {self._message}, said {self._said}" if self.render_mode == "ansi" else None


class MessageExpert:
    """Emits the message at every step.

    If it acted at random before the last step, the marginal likelihood could not tell one option per message from a
    single uniform policy, because the high-level policy does not depend on the state.
    """

    def __init__(self) -> None:
        self._messages: np.ndarray = np.zeros(1, dtype=np.int64)

    def predict(self, observation, state=None, episode_start=None, deterministic=True):
        """The interface of a Stable-Baselines3 policy, for one environment or a vector of them."""
        rows = np.atleast_2d(observation)
        remembered: np.ndarray = np.resize(self._messages, len(rows))
        self._messages = np.where(rows[:, 0] == 0, rows[:, 1].astype(np.int64), remembered)
        return (self._messages if np.ndim(observation) == 2 else self._messages[0]), state


def message_demonstrations(
    num_messages: int, num_episodes: int = 1000, seed: int = 0, num_steps: int = 5
) -> Trajectories:
    """Episodes of :class:`MessageExpert` in :class:`MessageEnv`."""
    return collect(MessageEnv(num_messages, num_steps), MessageExpert(), num_episodes, seed=seed)


@torch.no_grad()
def final_action_probabilities(policy: nn.Module, num_steps: int = 5) -> Tensor:
    """Action probabilities of each option at the last step, ``(K, num_messages)``.

    :param policy: the low-level policies of a model or of skills
    """
    check(num_steps >= 2, "num_steps >= 2", num_steps)
    parameter = next(policy.parameters())
    last = torch.tensor([[[num_steps - 1, -1]]], dtype=parameter.dtype, device=parameter.device)
    return torch.softmax(policy(last).logits, -1)[0, 0].cpu()


def message_success(probabilities: Tensor, threshold: float = 0.95) -> tuple[bool, float]:
    """Whether every message has an option that emits it, and the lowest probability over messages.

    :param probabilities: of :func:`final_action_probabilities`
    :param threshold: probability with which some option must emit each message
    """
    worst = float(probabilities.max(0).values.min())
    return worst >= threshold, worst
