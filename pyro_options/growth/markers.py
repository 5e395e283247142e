"""Where growth did something, for pictures."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .events import GrowthEvent


@dataclass(frozen=True)
class GrowthMarker:
    """What one check did, or refused to do."""

    epoch: int  # after which it happened
    kind: str  # birth, refusal, prune or merge
    count: int  # components
    num_components: int  # K after the whole check


def growth_markers(
    num_components: Sequence[int], events: Iterable[GrowthEvent], updates_per_epoch: float = 1
) -> list[GrowthMarker]:
    """A mark for each kind of thing that a check did.

    :param num_components: K in each epoch
    :param updates_per_epoch: units of the events' time in an epoch
    """
    marks: list[GrowthMarker] = []
    last_epoch, size = 0, 0
    for event in events:
        epoch = min(max(1, round(event.time / updates_per_epoch)), len(num_components))
        if epoch != last_epoch:  # several checks may follow the last epoch
            last_epoch, size = epoch, num_components[epoch - 1]
        size += event.num_born - event.num_removed
        marks += [GrowthMarker(epoch, kind, count, size) for kind, count in event.tally().items() if count]
    return marks
