"""Which part of a study fits into a given time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Costs:
    """Processor seconds of one run, and those that the runs of a seed share."""

    run: float
    seed: float = 0.0

    @classmethod
    def of_runs(cls, rows: Sequence[dict]) -> "Costs | None":
        """The mean of finished runs, which includes everything; ``None`` if there are none."""
        return cls(float(np.mean([row["processor_seconds"] for row in rows]))) if rows else None

    def of(self, num_runs: int) -> float:
        """Seconds of this many missing runs of a seed."""
        return num_runs * self.run + self.seed * (num_runs > 0)


def fitting_seeds(
    costs: Mapping[str, Costs], missing: Mapping[str, Sequence[str]], seeds: Sequence[int], hours: float
) -> tuple[tuple[int, ...], str]:
    """The first seeds whose missing runs fit into a time, at least one, and a sentence that says so.

    :param costs: of each game
    :param missing: names of the missing runs of each game, which end with their seed
    :param hours: of processor time
    """
    spent, kept = 0.0, 0
    for number, seed in enumerate(seeds):
        counts = {game: sum(name.endswith(f"seed {seed}") for name in names) for game, names in missing.items()}
        need = sum(costs[game].of(count) for game, count in counts.items()) / 3600
        if number and spent + need > hours:
            break
        spent, kept = spent + need, number + 1
    fits = "fit" if spent <= hours else "are begun but do not fit"
    chosen = tuple(seeds[:kept])
    text = (
        f"{hours:g} hours of processor time: {kept} of {len(seeds)} seeds {fits}, which need about {spent:.1f} hours."
    )
    return chosen, text
