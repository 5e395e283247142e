"""Experts that play Atari games from RAM, as demonstrators that need no download."""

from collections.abc import Callable
from functools import partial

from .breakout import BreakoutExpert
from .freeway import FreewayExpert
from .montezuma import MontezumaExpert
from .policy import PolicyExpert
from .pong import PongExpert
from .ram_expert import RamExpert
from .search import SearchExpert

#: makers of experts by the name of their game: scripts, plans that were found by exploration, and search
EXPERTS: dict[str, Callable[..., RamExpert]] = {
    "Alien": partial(SearchExpert, "Alien"),
    "Asterix": partial(SearchExpert, "Asterix"),
    "Asteroids": partial(SearchExpert, "Asteroids"),
    "Breakout": BreakoutExpert,
    "ChopperCommand": partial(SearchExpert, "ChopperCommand", num_plans=8, max_plans=32),
    "Freeway": FreewayExpert,
    "MontezumaRevenge": MontezumaExpert,
    "Pong": PongExpert,
    "SpaceInvaders": partial(SearchExpert, "SpaceInvaders", num_plans=8, max_plans=32),
}

__all__ = [
    "EXPERTS",
    "BreakoutExpert",
    "FreewayExpert",
    "MontezumaExpert",
    "PolicyExpert",
    "PongExpert",
    "RamExpert",
    "SearchExpert",
]
