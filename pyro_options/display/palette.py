"""Colours of options."""

#: Seven of Okabe and Ito's colours, followed by colours chosen greedily to be farthest from all before them. The
#: smallest distance among all 24 is that among the first seven, also for protanopia and deuteranopia.
PALETTE = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#550000"),
    *("#001177", "#66FFFF", "#774444", "#44DDAA", "#224499", "#5588EE", "#003344", "#77FFAA"),
    *("#44DDFF", "#447777", "#AA4400", "#445577", "#663300", "#77BB77", "#CCCC66", "#33CCCC"),
)

#: for everything that is not an option: baselines, refused moves, reference lines
NEUTRAL = "#7F7F7F"


def option_color(option: int) -> str:
    """The colour of an option. Colours repeat after 24 options, so figures also show the option's index."""
    return PALETTE[option % len(PALETTE)]


def luminance(color: str) -> float:
    """Relative luminance of ``#RRGGBB`` in [0, 1], as defined by WCAG 2."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ink(color: str) -> str:
    """Black or white, whichever has more contrast to ``color``."""
    return "#000000" if luminance(color) > 0.179 else "#FFFFFF"
