from .cards import Card, make_cards
from .explanation import Explanation, explain
from .imitation import Imitation
from .scores import (
    BoundaryScores,
    LabelScores,
    boundaries,
    boundary_scores,
    found_options,
    hungarian_accuracy,
    label_scores,
)
from .segmentation import Segment, Segmentation
from .skills import Skills
from .summary import Summary, summarize

__all__ = [
    "BoundaryScores",
    "Card",
    "Explanation",
    "Imitation",
    "LabelScores",
    "Segment",
    "Segmentation",
    "Skills",
    "Summary",
    "boundaries",
    "boundary_scores",
    "explain",
    "found_options",
    "hungarian_accuracy",
    "label_scores",
    "make_cards",
    "summarize",
]
