"""Experts that play Atari games from RAM, as demonstrators that need no download."""

from collections.abc import Callable
from functools import partial

from .breakout import BreakoutExpert
from .freeway import FreewayExpert
from .guided_search import GuidedSearchExpert
from .montezuma import MontezumaExpert
from .policy import TRAINED, PolicyExpert
from .pong import PongExpert
from .ram_expert import RamExpert
from .search import SearchExpert

#: makers of the experts that record demonstrations, by the name of their game: scripts, plans that were found by
#: exploration, and search among what a network proposes
EXPERTS: dict[str, Callable[..., RamExpert]] = {
    "Breakout": BreakoutExpert,
    "Freeway": FreewayExpert,
    "MontezumaRevenge": MontezumaExpert,
    "Pong": PongExpert,
    **{game: partial(GuidedSearchExpert, game) for game in TRAINED},
}

__all__ = [
    "EXPERTS",
    "BreakoutExpert",
    "FreewayExpert",
    "GuidedSearchExpert",
    "MontezumaExpert",
    "PolicyExpert",
    "PongExpert",
    "RamExpert",
    "SearchExpert",
]
