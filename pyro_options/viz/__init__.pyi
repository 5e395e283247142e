from .animation import annotate, save_gif
from .card_plots import option_card, option_cards
from .charts import (
    action_heatmap,
    clusters,
    component_counts,
    recovered_options,
    segment_lengths,
    segmentation_strip,
    usage_bars,
)
from .figure_style import COLUMN, NEUTRAL, PAGE, PALETTE, STYLE, ink, option_color, plt, style
from .growth_plots import growth_timeline
from .report import write_report

__all__ = [
    "COLUMN",
    "NEUTRAL",
    "PAGE",
    "PALETTE",
    "STYLE",
    "action_heatmap",
    "annotate",
    "clusters",
    "component_counts",
    "growth_timeline",
    "ink",
    "option_card",
    "option_cards",
    "option_color",
    "plt",
    "recovered_options",
    "save_gif",
    "segment_lengths",
    "segmentation_strip",
    "style",
    "usage_bars",
    "write_report",
]
