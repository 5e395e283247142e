"""Markers of growth events on the epoch axis of a plot."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .events import GrowthEvent


@dataclass(frozen=True)
class GrowthMarker:
    """Moves of one kind at one check."""

    epoch: int  # after which the check took place
    kind: str  # birth, refusal, prune or merge
    count: int  # components
    num_components: int  # K after the whole check


def growth_markers(
    num_components: Sequence[int], events: Iterable[GrowthEvent], updates_per_epoch: float = 1
) -> list[GrowthMarker]:
    """One marker for each check and kind of move.

    :param num_components: K in each epoch
    :param updates_per_epoch: units of ``GrowthEvent.time`` per epoch
    """
    marks: list[GrowthMarker] = []
    last_epoch, size = 0, 0
    for event in events:
        epoch = min(max(1, round(event.time / updates_per_epoch)), len(num_components))
        if epoch != last_epoch:  # several checks may take place after the last epoch
            last_epoch, size = epoch, num_components[epoch - 1]
        size += event.num_born - event.num_removed
        marks += [GrowthMarker(epoch, kind, count, size) for kind, count in event.tally().items() if count]
    return marks
