"""Scripted players that read the RAM of an Atari game, so that the whole pipeline runs without a download."""

from .breakout import BreakoutExpert
from .freeway import FreewayExpert
from .pong import PongExpert
from .ram_expert import RamExpert

#: experts by the name of their game
EXPERTS: dict[str, type[RamExpert]] = {"Breakout": BreakoutExpert, "Freeway": FreewayExpert, "Pong": PongExpert}

__all__ = ["EXPERTS", "BreakoutExpert", "FreewayExpert", "PongExpert", "RamExpert"]
