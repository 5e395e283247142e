"""How far the result of a discovery can be trusted: figures, and warnings in plain English."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

#: mean number of steps below which options are said to last about one step
SHORT = 1.5

#: adjusted Rand index of two segmentations below which they are said to disagree
AGREEMENT = 0.5

#: share of the information about the option that the state must give to be said to reveal it
REVEALS = 0.9


@dataclass(frozen=True)
class Gain:
    """Held-out log-likelihood beyond that of one policy, in nats per step."""

    mean: float
    error: float  # standard error, by episodes

    @property
    def real(self) -> bool:
        """Whether it is positive by two standard errors."""
        return self.mean > 2 * self.error


@dataclass(frozen=True)
class Trust:
    """Figures that say how far a discovery can be trusted; ``None`` where there was nothing to measure it by.

    :param num_options: options in use
    :param gain: over one policy of the same capacity
    :param gain_over_larger: over one policy with a larger network
    :param gain_over_memoryless: over the same options with one of them drawn anew at every step
    :param gap: training minus held-out log-likelihood, in nats per step
    :param chance: held-out log-likelihood beyond that of uniformly random actions, for discrete actions
    :param mean_length: steps from one choice of an option to the next
    :param at_bounds: share of the steps at which a continuous action is at a bound where it saturates
    :param other_counts: options in use after shorter trainings from other starts
    :param agreement: mean adjusted Rand index of their segmentations with this one
    :param state_reveals: share of the entropy of the option that the state alone removes: 1 if it reveals the option
    :param inputs: warnings about the data
    """

    num_options: int
    gain: Gain | None = None
    gain_over_larger: Gain | None = None
    gain_over_memoryless: Gain | None = None
    gap: float | None = None
    chance: float | None = None
    mean_length: float | None = None
    at_bounds: float | None = None
    other_counts: tuple[int, ...] = ()
    agreement: float | None = None
    state_reveals: float | None = None
    inputs: tuple[str, ...] = field(default=())

    @property
    def _gains(self) -> tuple[tuple[Gain | None, str], ...]:
        return (self.gain, "one policy"), (self.gain_over_larger, "one policy with a larger network")

    @property
    def short(self) -> bool:
        """Whether options last about one step."""
        return self.num_options > 1 and self.mean_length is not None and self.mean_length < SHORT

    @property
    def memoryless(self) -> bool:
        """Whether it may be chance which option comes after which: nothing lasts."""
        gain = self.gain_over_memoryless
        return self.num_options > 1 and gain is not None and not gain.real

    @property
    def may_be_one(self) -> bool:
        """Whether one policy may be all there is.

        Either a single one explains as much, or options do not last: they are then the parts of one policy whose
        actions have a distribution of another shape.
        """
        return self.short or self.memoryless or any(gain is not None and not gain.real for gain, _ in self._gains)

    @property
    def disagrees(self) -> bool:
        """Whether other starts cut the demonstrations elsewhere: which options there are depends on chance."""
        return self.num_options > 1 and self.agreement is not None and self.agreement < AGREEMENT

    @property
    def fewest(self) -> int:
        """The least number of options that the figures do not speak against, at most those in use.

        One if one policy may be all there is. Where starts disagree on the segments, that one policy is not enough is
        all that is known. Otherwise the options that were found are those that there are.
        """
        return 1 if self.may_be_one else min(2, self.num_options) if self.disagrees else self.num_options

    @property
    def warnings(self) -> list[str]:
        """What a user should know before relying on the options."""
        several = self.num_options > 1
        found = list(self.inputs)
        for gain, what in self._gains:
            if several and gain is not None and not gain.real:
                found.append(
                    f"{what.capitalize()} explains held-out actions as well as {self.num_options} options do "
                    f"({gain.mean:+.3f} ± {gain.error:.3f} nats per step): one policy suffices."
                )
                break
        if self.short:
            found.append(
                f"Options last {self.mean_length:.1f} steps on average: they describe single actions, not behaviours."
            )
        elif self.memoryless and (gain := self.gain_over_memoryless) is not None:
            found.append(
                "Held-out actions are explained as well if an option is drawn anew at every step "
                f"({gain.mean:+.3f} ± {gain.error:.3f} nats per step): options describe how actions are distributed, "
                "not behaviours."
            )
        if self.chance is not None and self.chance < 0:
            found.append(
                f"Held-out actions are less likely than under random guessing ({self.chance:+.3f} nats per step): "
                "collect more demonstrations, or pass a smaller weight_scale."
            )
        counts = {self.num_options, *self.other_counts}
        unstable = max(counts) - min(counts) > max(1, round(0.2 * self.num_options))
        if unstable:
            seen = ", ".join(str(n) for n in sorted(counts))
            found.append(f"The number of options depends on the start: {seen} were found. Pass more restarts.")
        if self.disagrees:
            found.append(
                f"Segmentations from different starts agree little (adjusted Rand index {self.agreement:.2f})."
            )
        return found

    def describe(self) -> str:
        """A few lines of text, the warnings last."""
        lines = []
        for gain, what in self._gains:
            if gain is not None:
                lines.append(f"held-out gain over {what}: {gain.mean:+.3f} ± {gain.error:.3f} nats per step")
        if (gain := self.gain_over_memoryless) is not None:
            lines.append(f"held-out gain from options that last: {gain.mean:+.3f} ± {gain.error:.3f} nats per step")
        if self.gap is not None:
            lines.append(f"training minus held-out log-likelihood: {self.gap:+.3f} nats per step")
        if self.other_counts:
            others = ", ".join(map(str, self.other_counts))
            agreement = "" if self.agreement is None else f" (segmentations agree: {self.agreement:.2f})"
            lines.append(f"options in use from other starts: {others}{agreement}")
        if self.at_bounds:
            lines.append(f"steps with an action at a bound: {100 * self.at_bounds:.0f}%")
        if self.state_reveals is not None and self.state_reveals >= REVEALS:
            lines.append("the state alone reveals the option")
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])

    def to_dict(self) -> dict[str, Any]:
        """All figures and the warnings, as JSON values."""
        return asdict(self) | {"warnings": self.warnings}

    @staticmethod
    def from_dict(given: Mapping[str, Any]) -> "Trust":
        """The inverse of :meth:`to_dict`."""
        values = {name: value for name, value in given.items() if name != "warnings"}
        for name in ("gain", "gain_over_larger", "gain_over_memoryless"):
            values[name] = None if values.get(name) is None else Gain(**values[name])
        for name in ("other_counts", "inputs"):
            values[name] = tuple(values[name])
        return Trust(**values)
