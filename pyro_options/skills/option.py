"""One option of skills."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .notebook import option_html

if TYPE_CHECKING:
    from .skills import Skills


@dataclass(frozen=True, repr=False)
class Option:
    """One option: ``skills[k]``. It acts and ends as the methods of :class:`Skills` with its number do."""

    skills: "Skills"
    number: int

    @property
    def name(self) -> str:
        """See :attr:`Skills.names`."""
        return self.skills.names[self.number]

    @property
    def weight(self) -> float:
        """Probability of the option when one is chosen, if that does not depend on the state."""
        return float(self.skills.log_weights[self.number].exp())

    @property
    def usage(self) -> float | None:
        """Share of the training steps, ``None`` if the skills have no summary."""
        summary = self.skills.summary
        return None if summary is None else float(summary.usage[self.number])

    @property
    def mean_length(self) -> float | None:
        """Mean number of steps of a segment, ``None`` if the skills have no summary."""
        summary = self.skills.summary
        return None if summary is None else float(summary.mean_length[self.number])

    def predict(
        self, observation: ArrayLike, deterministic: bool = True, rng: np.random.Generator | None = None
    ) -> Any:
        """The action in this state, see :meth:`Skills.predict`."""
        return self.skills.predict(observation, self.number, deterministic, rng)

    def action_probabilities(self, observation: ArrayLike) -> np.ndarray:
        """Probabilities of discrete actions, see :meth:`Skills.action_probabilities`."""
        return self.skills.action_probabilities(observation, self.number)

    def termination_probability(self, observation: ArrayLike) -> Any:
        """Probability of ending in this state, see :meth:`Skills.termination_probability`."""
        return self.skills.termination_probability(observation, self.number)

    def terminates(self, observation: ArrayLike, rng: np.random.Generator | None = None) -> Any:
        """Whether it ends in this state, see :meth:`Skills.terminates`."""
        return self.skills.terminates(observation, self.number, rng)

    def __repr__(self) -> str:
        usage = "" if self.usage is None else f", {100 * self.usage:.1f}% of steps"
        return f"Option({self.number}, {self.name!r}{usage})"

    def _repr_html_(self) -> str:
        return option_html(self)
