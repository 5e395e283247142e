from .cards import Card, make_cards
from .from_model import skills_at, to_skills
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
from .segmentation import IN_USE, Segment, Segmentation
from .skills import Skills
from .summary import Summary, summarize
from .trust import Gain, Trust

__all__ = [
    "IN_USE",
    "BoundaryScores",
    "Card",
    "Gain",
    "Imitation",
    "LabelScores",
    "Segment",
    "Segmentation",
    "Skills",
    "Summary",
    "Trust",
    "boundaries",
    "boundary_scores",
    "found_options",
    "hungarian_accuracy",
    "label_scores",
    "make_cards",
    "skills_at",
    "summarize",
    "to_skills",
]
