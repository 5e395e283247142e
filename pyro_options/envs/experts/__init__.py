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

#: makers of experts that search, by the name of their game, with the widths that were measured
SEARCH_EXPERTS: dict[str, Callable[..., RamExpert]] = {
    "Alien": partial(SearchExpert, "Alien"),
    "Asterix": partial(SearchExpert, "Asterix"),
    "Asteroids": partial(SearchExpert, "Asteroids"),
    "ChopperCommand": partial(SearchExpert, "ChopperCommand", num_plans=8, max_plans=32),
    "SpaceInvaders": partial(SearchExpert, "SpaceInvaders", num_plans=8, max_plans=32),
}

#: makers of the experts that record demonstrations, by the name of their game: networks, scripts, plans that were found
#: by exploration, and search
EXPERTS: dict[str, Callable[..., RamExpert]] = {
    "Alien": partial(PolicyExpert, "Alien"),
    "Asterix": partial(PolicyExpert, "Asterix"),
    "Asteroids": partial(PolicyExpert, "Asteroids", deterministic=False),
    "Breakout": BreakoutExpert,
    "ChopperCommand": partial(PolicyExpert, "ChopperCommand", deterministic=False),
    "Freeway": FreewayExpert,
    "MontezumaRevenge": MontezumaExpert,
    "Pong": PongExpert,
    "SpaceInvaders": SEARCH_EXPERTS["SpaceInvaders"],
}

__all__ = [
    "EXPERTS",
    "SEARCH_EXPERTS",
    "BreakoutExpert",
    "FreewayExpert",
    "MontezumaExpert",
    "PolicyExpert",
    "PongExpert",
    "RamExpert",
    "SearchExpert",
]
