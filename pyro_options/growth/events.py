"""Records of growth checks and of the moves they tried."""

import math
from dataclasses import dataclass

import torch

from .usage import Usage
from .verdict import Verdict


@dataclass(frozen=True)
class Move:
    """One proposed change of K and its verdict."""

    kind: str  # birth, prune or merge
    components: tuple[int, ...]  # a birth: indices after the move; a removal: indices before it
    verdict: Verdict


@dataclass(frozen=True)
class GrowthEvent:
    """One growth check: the usage it was based on and the moves it tried, accepted or not."""

    time: int
    usage: Usage
    moves: tuple[Move, ...] = ()

    def _count(self, born: bool) -> int:
        accepted = [m for m in self.moves if m.verdict.accepted and (m.kind == "birth") == born]
        return sum(len(move.components) for move in accepted)

    @property
    def num_born(self) -> int:
        """Components born at this check."""
        return self._count(True)

    @property
    def born(self) -> tuple[int, ...]:
        """Indices of the components born at this check."""
        births = [move for move in self.moves if move.verdict.accepted and move.kind == "birth"]
        return tuple(index for move in births for index in move.components)

    @property
    def num_removed(self) -> int:
        """Components removed at this check."""
        return self._count(False)

    def tally(self) -> dict[str, int]:
        """Numbers of components born, refused, pruned and merged, for plots."""
        counts = dict.fromkeys(("birth", "refusal", "prune", "merge"), 0)
        for move in self.moves:
            if move.verdict.accepted:
                counts[move.kind] += len(move.components)
            elif move.kind == "birth":
                counts["refusal"] += len(move.components)
        return counts

    def to_dict(self) -> dict:
        """Plain numbers for JSON; a gain or an error that was not measured is ``None``."""
        return {
            "time": self.time,
            "likelihood_usage": self.usage.likelihood.tolist(),
            "posterior_usage": self.usage.posterior.tolist(),
            "num_points": self.usage.num_points,
            "moves": [
                {"kind": m.kind, "components": list(m.components), "accepted": m.verdict.accepted}
                | {name: None if math.isnan(x) else x for name, x in m.verdict.figures().items()}
                for m in self.moves
            ],
        }

    @staticmethod
    def from_dict(given: dict) -> "GrowthEvent":
        """The inverse of :meth:`to_dict`."""
        usage = Usage(
            torch.tensor(given["likelihood_usage"]), torch.tensor(given["posterior_usage"]), given["num_points"]
        )
        moves = []
        for move in given["moves"]:
            figures = (math.nan if move[name] is None else move[name] for name in ("gain", "error"))
            moves.append(Move(move["kind"], tuple(move["components"]), Verdict(move["accepted"], *figures)))
        return GrowthEvent(given["time"], usage, tuple(moves))
