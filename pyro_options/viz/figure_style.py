"""The one style of every figure."""

from typing import Any

import matplotlib.pyplot as plt

from .palette import PALETTE

#: widths in inches: as printed in a column, and across a page or a slide; text stays readable at either
COLUMN, PAGE = 3.5, 7.2

#: settings of matplotlib for every picture
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
    "pdf.fonttype": 42,  # text stays text in a paper
    "svg.fonttype": "none",
}


def style():
    """Context manager with the house style: ``with plotting.style(): …``."""
    return plt.rc_context(STYLE)
