"""Scripted experts that play Atari games from RAM, as demonstrators that need no download."""

from .breakout import BreakoutExpert
from .freeway import FreewayExpert
from .pong import PongExpert
from .ram_expert import RamExpert

#: experts by the name of their game
EXPERTS: dict[str, type[RamExpert]] = {"Breakout": BreakoutExpert, "Freeway": FreewayExpert, "Pong": PongExpert}

__all__ = ["EXPERTS", "BreakoutExpert", "FreewayExpert", "PongExpert", "RamExpert"]
