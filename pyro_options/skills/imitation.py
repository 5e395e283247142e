"""All options combined into one policy, with the active option inferred from the episode so far."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pyro_options.errors import check
from pyro_options.options.recursion import arrive

from .numpy_actions import log_softmax
from .numpy_policy import softmax

if TYPE_CHECKING:
    from .skills import Skills


def _log(probabilities: np.ndarray) -> np.ndarray:
    """Logarithm that is -inf at zero, without a warning."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


class Imitation:
    r"""The predictive distribution of the demonstrator's next action, with the active option summed out.

    .. math:: p(a_t\mid s_{0:t}, a_{0:t-1}) = \sum_k p(h_t=k\mid s_{0:t}, a_{0:t-1})\,\pi_k(a_t\mid s_t)

    A single option is only useful in states where the demonstrator used it. This policy infers which option is active:
    it keeps a belief state :math:`\beta_{t,k} = p(h_t=k\mid s_{0:t}, a_{0:t})`, updated by the forward recursion of the
    likelihood (:func:`~pyro_options.options.recursion.arrive`),

    .. math:: \beta_{t,k} \propto \pi_k(a_t\mid s_t)\,
        [(1-\psi_k(s_t))\,\beta_{t-1,k} + \eta_k\sum_l\psi_l(s_t)\,\beta_{t-1,l}],

    with :math:`\sum_l\psi_l(s_t)\,\beta_{t-1,l}\,\pi_{l,k}` as the last term if options have rows of transitions.

    :meth:`predict` has the interface of a recurrent policy of Stable-Baselines3, for ``evaluate_policy`` and
    :func:`~pyro_options.data.collect`; ``state`` is the belief, ``None`` at the start of an episode::

        imitation, state = skills.imitation(), None
        action, state = imitation.predict(observation, state)

    :param skills: options with terminations; CompILE's skills have none
    """

    def __init__(self, skills: "Skills"):
        fix = "Use a method whose options terminate, such as options-exact or ddo."
        check(skills.segments is None, "options with terminations to imitate with", "segments of CompILE", fix)
        self.skills = skills

    def _stops(self, observation: ArrayLike) -> np.ndarray:
        """Termination probabilities ψ of all options, ``(..., K)``."""
        return self.skills.termination_probability(observation, None).astype(np.float64)

    def _arrived(self, observation: ArrayLike, state: np.ndarray | None, episode_start: ArrayLike | None) -> np.ndarray:
        stop, weights = self._stops(observation), self.skills.choice_probabilities(observation)
        if state is None:
            return weights
        check(np.shape(state) == stop.shape, f"a belief of shape {stop.shape}", np.shape(state))
        if self.skills.log_rows is not None:
            rows = softmax(self.skills.log_rows.cpu().double().numpy())
            arrived = (1 - stop) * state + (stop * state) @ rows
        else:
            logs = _log(weights), _log(stop), _log(1 - stop), _log(state)
            arrived = np.exp(arrive(*logs, np.logaddexp.reduce, np.logaddexp)[0])
        if episode_start is None:
            return arrived
        starts = np.asarray(episode_start, bool)
        check(starts.size == stop[..., 0].size, f"episode_start of {stop[..., 0].size} observations", starts.shape)
        return np.where(starts.reshape(stop.shape[:-1] + (1,)), weights, arrived)

    @staticmethod
    def _mixed(arrived: np.ndarray, logits: np.ndarray) -> np.ndarray:
        """Probabilities of discrete actions, ``(..., A)``."""
        return (arrived[..., None] * softmax(logits)).sum(-2)

    def _scores(self, outputs: np.ndarray, action: Any) -> np.ndarray:
        """log π_k of an action, ``(..., K)``."""
        return self.skills.rule.scores(outputs.astype(np.float64), np.asarray(action))

    def _condition(self, arrived: np.ndarray, outputs: np.ndarray, action: Any) -> np.ndarray:
        return np.exp(log_softmax(_log(arrived) + self._scores(outputs, action)))

    def options(
        self, observation: ArrayLike, state: np.ndarray | None = None, episode_start: ArrayLike | None = None
    ) -> np.ndarray:
        """``p(h_t | s_0:t, a_0:t-1)``, the belief before acting: ``(K,)``, or ``(n, K)`` for n observations.

        :param state: the belief after the previous action, ``None`` at the start of an episode
        :param episode_start: for each observation, whether it is the first of its episode
        """
        return self._arrived(observation, state, episode_start)

    def update(
        self,
        observation: ArrayLike,
        action: Any,
        state: np.ndarray | None = None,
        episode_start: ArrayLike | None = None,
    ) -> np.ndarray:
        """The belief after an action taken in this state, by this policy or another: ``(K,)``, or ``(n, K)``."""
        arrived = self.options(observation, state, episode_start)
        return self._condition(arrived, self.skills.outputs(observation), action)

    def action_probabilities(
        self, observation: ArrayLike, state: np.ndarray | None = None, episode_start: ArrayLike | None = None
    ) -> np.ndarray:
        """Predictive probabilities of discrete actions: ``(num_actions,)``, or ``(n, num_actions)``."""
        check(self.skills.discrete, "one discrete action", f"{self.skills.action_dim} dimensions")
        return self._mixed(self.options(observation, state, episode_start), self.skills.outputs(observation))

    def predict(
        self,
        observation: ArrayLike,
        state: np.ndarray | None = None,
        episode_start: ArrayLike | None = None,
        deterministic: bool = True,
        rng: np.random.Generator | None = None,
    ) -> tuple[Any, np.ndarray]:
        """The next action, and the belief after it.

        :param observation: ``(state_dim,)`` or ``(n, state_dim)``
        :param state: the belief after the previous action, ``None`` at the start of an episode
        :param episode_start: for each observation, whether it is the first of its episode
        :param deterministic: return the most probable action (several dimensions: that of the most probable option)
            instead of sampling
        :param rng: for sampling, by default that of the skills
        """
        arrived, outputs = self.options(observation, state, episode_start), self.skills.outputs(observation)
        action: Any
        if self.skills.discrete and deterministic:
            action = self._mixed(arrived, outputs).argmax(-1)
            action = int(action) if arrived.ndim == 1 else action
        else:
            rng = self.skills.rng if rng is None else rng
            noise = 0.0 if deterministic else rng.gumbel(size=arrived.shape)
            option = (_log(arrived) + noise).argmax(-1)
            option = int(option) if arrived.ndim == 1 else option
            action = self.skills.predict(observation, option, deterministic, rng)
        return action, self._condition(arrived, outputs, action)

    def switch_probability(self, observation: ArrayLike, state: np.ndarray) -> Any:
        """Probability that the active option terminates in this state: a float, or ``(n,)``.

        :param state: the belief after the previous action
        """
        stop = self.skills.termination_probability(observation, None)
        check(np.shape(state) == stop.shape, f"a belief of shape {stop.shape}", np.shape(state))
        chance = (stop * state).sum(-1)
        return chance if chance.ndim else float(chance)
