"""Search among plans that a network proposes."""

from random import Random
from typing import Any

import numpy as np

from pyro_options.errors import check

from .policy import PolicyExpert
from .search import SearchExpert


class GuidedSearchExpert(SearchExpert):
    r"""Plays the best of a few plans that a network has drawn, :math:`a_t \sim \pi(a \mid s_t)^{1/\tau}`.

    As :class:`SearchExpert`, but a plan is what the network might do instead of random actions. So the expert scores
    more than the network, and more than a search among random plans.

    :param game: such as ``Alien``
    :param frame_skip: frames that each action lasts
    :param network: by default the one of the package
    :param temperature: :math:`\tau`; smaller values draw the most probable actions
    :param horizon: length of a plan; a network's plans are worth following further than random ones
    :param commit: actions after which to plan again
    :param max_plans: plans that are drawn at most, if none of the first survives
    :param settings: further ones of :class:`SearchExpert`
    """

    def __init__(
        self,
        game: str,
        frame_skip: int = 4,
        network: PolicyExpert | None = None,
        temperature: float = 1.0,
        horizon: int = 40,
        commit: int = 8,
        max_plans: int | None = 12,
        **settings: Any,
    ):
        self.network = PolicyExpert(game, frame_skip) if network is None else network
        check(self.network.about["game"] == game, f"a network of {game}", self.network.about["game"])
        check(self.network.frame_skip == frame_skip, "the frame_skip of the network", frame_skip)
        check(temperature > 0, "temperature > 0", temperature)
        super().__init__(game, frame_skip, horizon=horizon, commit=commit, max_plans=max_plans, **settings)
        self.temperature = temperature

    def _candidate(self, state, start, rng: Random):
        emulator, actions = self.followed.emulator, list(start)
        emulator.restoreState(state)
        lives, score, discount = emulator.lives(), 0.0, 1.0
        for t in range(self.horizon):
            if t == len(actions):
                actions.append(self._draw(rng))
            score += discount * self.followed.act(actions[t])
            discount *= self.gamma
            if emulator.lives() < lives or emulator.game_over():
                return tuple(actions), (False, score)
        return tuple(actions), (True, score)

    def _draw(self, rng: Random) -> int:
        """An action of the network in the emulator's current state."""
        logits = self.network.logits(np.frombuffer(self.followed.ram(), np.uint8))
        chances = np.exp((logits - logits.max()) / self.temperature).cumsum()
        return int((chances < rng.random() * chances[-1]).sum())
