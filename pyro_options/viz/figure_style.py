"""The common style of all figures."""

from typing import Any

import matplotlib.pyplot as plt

from pyro_options.display.palette import NEUTRAL, PALETTE, ink, option_color

__all__ = ["COLUMN", "NEUTRAL", "PAGE", "PALETTE", "STYLE", "ink", "option_color", "plt", "style"]

#: figure widths in inches, of a column and of a page or slide
COLUMN, PAGE = 3.5, 7.2

#: matplotlib's rc parameters
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "figure.titlesize": 11,
    "figure.titleweight": "bold",
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": plt.cycler(color=PALETTE),
    "axes.edgecolor": "0.35",
    "xtick.color": "0.35",
    "ytick.color": "0.35",
    "xtick.labelcolor": "0.15",
    "ytick.labelcolor": "0.15",
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "figure.figsize": (COLUMN, 2.6),
    "figure.dpi": 110,
    "savefig.dpi": 220,
    "pdf.fonttype": 42,  # embeds TrueType fonts, so that text in a PDF stays text
    "svg.fonttype": "none",
}


def style():
    """Context manager that applies :data:`STYLE`: ``with viz.style(): …``."""
    return plt.rc_context(STYLE)
