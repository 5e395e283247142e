from .actions import SegmentedActions, SegmentSkills
from .boundaries import PoissonBoundaries, segment_masks
from .encoder import SegmentEncoder
from .path import SegmentPath
from .poisson_segments import PoissonSegments
from .relaxed import RelaxedBoundaries, RelaxedSkills

__all__ = [
    "PoissonBoundaries",
    "PoissonSegments",
    "RelaxedBoundaries",
    "RelaxedSkills",
    "SegmentEncoder",
    "SegmentPath",
    "SegmentSkills",
    "SegmentedActions",
    "segment_masks",
]
