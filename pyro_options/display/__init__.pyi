from .fragments import bars, card, cards, facts, panel, runs, series, strip
from .palette import NEUTRAL, PALETTE, ink, luminance, option_color

__all__ = [
    "NEUTRAL",
    "PALETTE",
    "bars",
    "card",
    "cards",
    "facts",
    "ink",
    "luminance",
    "option_color",
    "panel",
    "runs",
    "series",
    "strip",
]
