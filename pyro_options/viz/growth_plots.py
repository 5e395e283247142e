"""The number of components over training."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation

from pyro_options.display.palette import NEUTRAL, PALETTE
from pyro_options.growth.events import GrowthEvent
from pyro_options.growth.markers import growth_markers

_MARKS = {
    "birth": ("born", "^", PALETTE[2]),
    "refusal": ("birth refused", "x", NEUTRAL),
    "prune": ("pruned", "v", PALETTE[5]),
    "merge": ("merged", "D", PALETTE[3]),
}


def growth_timeline(
    ax: Axes,
    num_options: Sequence[int],
    growth_epochs: Sequence[int] = (),
    target: int | None = None,
    *,
    events: Iterable[GrowthEvent] = (),
    updates_per_epoch: float = 1,
) -> None:
    """K over training, with marks for births, refused births, prunes and merges.

    :param num_options: K in each epoch
    :param growth_epochs: epochs after which a component was added, used if there are no ``events``
    :param target: the number of components that the task needs, drawn as a line
    :param events: the growth checks, see :attr:`~pyro_options.handlers.GrowthMessenger.history`
    :param updates_per_epoch: converts the time of events to epochs
    """
    marks = growth_markers(num_options, events, updates_per_epoch)
    sizes = [
        *num_options,
        marks[-1].num_components if marks and marks[-1].epoch == len(num_options) else num_options[-1],
    ]
    ax.step(np.arange(len(sizes)), sizes, where="post", color=PALETTE[0], zorder=2)
    if target is not None:
        ax.axhline(target, color=NEUTRAL, linestyle="--", linewidth=1, label=f"needed: {target}", zorder=1)
    points: dict[str, list[tuple[float, int]]] = {kind: [] for kind in _MARKS}
    seen: Counter[tuple[int, int]] = Counter()
    for mark in marks:
        place = mark.epoch, mark.num_components
        points[mark.kind].append((mark.epoch + 0.025 * len(num_options) * seen[place], mark.num_components))
        seen[place] += 1  # marks of the same check are drawn side by side
    if not marks:
        points["birth"] = [(epoch, sizes[min(epoch, len(sizes) - 1)]) for epoch in growth_epochs]
    for kind, (label, marker, color) in _MARKS.items():
        if points[kind]:
            line = ax.plot(*zip(*points[kind]), marker, color=color, label=label, markersize=6.5, zorder=3)[0]
            if kind != "refusal":  # a cross has no face, so a white edge would hide it
                line.set(markeredgecolor="white", markeredgewidth=0.8)
    ax.set(xlabel="epoch", ylabel="options K", title="Growth", ylim=(0, max(*sizes, target or 0) + 1))
    ax.set_xlim(0, len(num_options) * 1.02)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    if ax.get_legend_handles_labels()[0]:
        shift = ScaledTranslation(-4 / 72, -30 / 72, ax.figure.dpi_scale_trans)  # inches: below the axis label
        look: Any = {"ncols": 3, "borderaxespad": 0, "handletextpad": 0.3, "columnspacing": 1}
        ax.legend(loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=ax.transAxes + shift, **look)
