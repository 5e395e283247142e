from .acting import ActingSkills
from .cards import Card, make_cards
from .episodes import option_posterior
from .from_model import skills_at, to_skills
from .imitation import Imitation
from .laplace import WeightPosterior, laplace
from .lerobot_subtasks import write_lerobot_subtasks
from .places import Places, Telling, find_places
from .policy_weights import PolicyWeights, policy_weights
from .scores import (
    BoundaryScores,
    LabelScores,
    adjusted_rand,
    boundaries,
    boundary_scores,
    found_options,
    hungarian_accuracy,
    label_scores,
)
from .segment_tables import segment_columns, segments_to_dataframe, write_segments
from .segmentation import IN_USE, Segment, Segmentation
from .skills import Skills
from .summary import Summary, summarize
from .trust import Gain, Trust

__all__ = [
    "IN_USE",
    "ActingSkills",
    "BoundaryScores",
    "Card",
    "Gain",
    "Imitation",
    "LabelScores",
    "Places",
    "PolicyWeights",
    "Segment",
    "Segmentation",
    "Skills",
    "Summary",
    "Telling",
    "Trust",
    "WeightPosterior",
    "adjusted_rand",
    "boundaries",
    "boundary_scores",
    "find_places",
    "found_options",
    "hungarian_accuracy",
    "label_scores",
    "laplace",
    "make_cards",
    "option_posterior",
    "policy_weights",
    "segment_columns",
    "segments_to_dataframe",
    "skills_at",
    "summarize",
    "to_skills",
    "write_lerobot_subtasks",
    "write_segments",
]
