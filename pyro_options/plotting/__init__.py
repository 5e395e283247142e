"""Pictures in one style: colour-blind safe, readable in a paper column and on a slide."""

import matplotlib.pyplot as plt

from pyro_options.palette import NEUTRAL, PALETTE, ink, option_color

from .cards import option_card, option_cards
from .charts import (
    action_heatmap,
    clusters,
    component_counts,
    recovered_options,
    segment_lengths,
    segmentation_strip,
    usage_bars,
)
from .growth import growth_timeline
from .style import COLUMN, PAGE, STYLE, style

__all__ = [
    "COLUMN",
    "NEUTRAL",
    "PAGE",
    "PALETTE",
    "STYLE",
    "action_heatmap",
    "clusters",
    "component_counts",
    "growth_timeline",
    "ink",
    "option_card",
    "option_cards",
    "option_color",
    "plt",
    "recovered_options",
    "segment_lengths",
    "segmentation_strip",
    "style",
    "usage_bars",
]
