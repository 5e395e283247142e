"""What discovery returns: skills to run, to ask about data, and to keep."""

from .poisson_segments import PoissonSegments
from .segments import Segment, Segmentation
from .skills import Skills
from .summary import Summary, summarize

__all__ = ["PoissonSegments", "Segment", "Segmentation", "Skills", "Summary", "summarize"]
