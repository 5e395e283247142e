"""What discovery returns: skills to run, to ask about data, and to keep."""

from .cards import Card, make_cards
from .imitation import Imitation
from .poisson_segments import PoissonSegments
from .segments import Segment, Segmentation
from .skills import Skills
from .summary import Summary, summarize

__all__ = [
    "Card",
    "Imitation",
    "PoissonSegments",
    "Segment",
    "Segmentation",
    "Skills",
    "Summary",
    "make_cards",
    "summarize",
]
