"""What a training records of its course."""

from dataclasses import asdict, dataclass, field

from pyro_options.errors import check


@dataclass
class History:
    """Training curves with one entry per epoch, and the epochs or steps of notable events."""

    objective: list[float] = field(default_factory=list)  # nats per episode, without the entropy bonus
    objective_is_bound: bool = True  # whether it is an ELBO, a lower bound of the log marginal; a relaxed one is not
    num_options: list[int] = field(default_factory=list)
    temperature: list[float] = field(default_factory=list)
    entropy_weight: list[float] = field(default_factory=list)
    growth_epochs: list[int] = field(default_factory=list)  # epochs after which a component was added
    removal_epochs: list[int] = field(default_factory=list)  # epochs after which a component was removed
    skipped_steps: list[int] = field(default_factory=list)  # steps at which a batch was skipped
    restored_steps: list[int] = field(default_factory=list)  # steps at which the parameters were restored
    judge_scores: list[float] = field(default_factory=list)  # of each held-out episode, before the final phase
    seconds: float = 0.0

    @property
    def elbo(self) -> list[float]:
        """The objective, if it is a bound."""
        fix = "Read the history's objective, or the exact log-likelihood of the model with its path summed out."
        check(self.objective_is_bound, "a guide whose objective is a lower bound", "a relaxed objective", fix)
        return self.objective

    def to_dict(self) -> dict:
        """All fields, as JSON values."""
        return asdict(self)
