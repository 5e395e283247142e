"""Option cards: actions, segment lengths, start and stop times, and example frames of an option."""

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from pyro_options.display.palette import ink, option_color
from pyro_options.errors import check
from pyro_options.skills.cards import Card

from .figure_style import PAGE

_BINS = 12
_ACTIONS = 4  # maximum number of bars


def _action_bars(ax: Axes, actions: Tensor, names: Sequence[str] | None, discrete: bool, color: str) -> None:
    """The most frequent actions, or the mean of each dimension."""
    order = list(range(len(actions)))[:_ACTIONS]
    if discrete:
        order = [a for a in actions.argsort(descending=True)[:_ACTIONS].tolist() if actions[a] >= 0.005]
    values = actions[order].numpy() * (100 if discrete else 1)
    labels = [names[a] if names else str(a) for a in order]
    ax.barh(range(len(order)), values, color=color, edgecolor="0.35", linewidth=0.4, height=0.75)
    ax.set(yticks=range(len(order)), yticklabels=labels, xlabel="steps (%)" if discrete else "mean action")
    ax.set_ylim(max(len(order), 2) - 0.4, -0.6)  # a single bar is as thick as two would be
    if discrete:
        ax.set_xlim(0, 100)


def _histogram(ax: Axes, values: Tensor, edges: np.ndarray, color: str, sign: int = 1) -> None:
    counts, _ = np.histogram(values.numpy(), edges)
    shares = 100 * sign * counts / counts.sum()
    alpha = 1.0 if sign > 0 else 0.45
    ax.bar(edges[:-1], shares, np.diff(edges), align="edge", color=color, alpha=alpha, edgecolor="0.35", linewidth=0.4)


def _edges(low: int, high: int) -> np.ndarray:
    width = max(1, math.ceil((high - low + 1) / _BINS))
    return np.arange(low, high + width + 1, width) - 0.5


def _pictures(card: Card, frames: Mapping[int, Sequence[np.ndarray]]) -> list[np.ndarray]:
    """The first, middle and last frame of the most typical segment that has frames; empty if none has."""
    for episode, segment in card.examples:
        if episode in frames and segment.stop <= len(frames[episode]):
            times = segment.start, (segment.start + segment.stop - 1) // 2, segment.stop - 1
            return [frames[episode][t] for t in times]
    return []


def option_card(
    figure: FigureBase,
    card: Card,
    name: str,
    action_names: Sequence[str] | None = None,
    discrete: bool = True,
    frames: Mapping[int, Sequence[np.ndarray]] | None = None,
    longest_segment: int | None = None,
    longest_episode: int | None = None,
) -> None:
    """Draws the card of one option on a figure or subfigure.

    :param card: from :func:`~pyro_options.skills.make_cards`
    :param name: title of the card
    :param discrete: whether actions are discrete
    :param frames: episode -> screens; the start, middle and end of a typical segment are shown
    :param longest_segment: upper limit of the length axis, by default the longest segment of this option; pass the same
        to all cards to compare them
    :param longest_episode: the same for the time axis
    """
    color = option_color(card.option)
    label = {"facecolor": color, "edgecolor": "0.35", "linewidth": 0.5, "boxstyle": "round,pad=0.3"}
    title = figure.suptitle(f"{name} · {100 * card.usage:.0f} %", fontsize=9, x=0.03, ha="left")
    title.set(color=ink(color), bbox=label)
    pictures = _pictures(card, frames or {})
    kinds = ["actions", "lengths", "places"] + ["pictures"] * bool(pictures)
    axes = dict(zip(kinds, figure.subplots(len(kinds), 1)))
    _action_bars(axes["actions"], card.actions, action_names, discrete, color)
    most = int(card.lengths.max()) if longest_segment is None else longest_segment
    edges = _edges(1, most)
    _histogram(axes["lengths"], card.lengths, edges, color)
    axes["lengths"].axvline(card.median_length, color="0.15", linewidth=1)
    text = f"length (steps), median {card.median_length:g}"
    axes["lengths"].set(xlabel=text, ylabel="share (%)", xlim=(0, edges[-1]))
    end = int(card.stops.max()) if longest_episode is None else longest_episode - 1
    edges = _edges(0, end)
    _histogram(axes["places"], card.starts, edges, color)
    _histogram(axes["places"], card.stops, edges, color, -1)
    axes["places"].axhline(0, color="0.15", linewidth=0.8)
    axes["places"].set(xlabel="starts ↑, stops ↓ (step)", ylabel="share (%)", xlim=(edges[0], edges[-1]))
    axes["places"].yaxis.set_major_formatter(lambda share, _: f"{abs(share):g}")
    for kind in ("lengths", "places"):
        axes[kind].xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes[kind].yaxis.set_major_locator(MaxNLocator(3))
    if pictures:
        gap = np.full((pictures[0].shape[0], max(2, pictures[0].shape[1] // 16), 3), 255, np.uint8)
        axes["pictures"].imshow(np.hstack([pictures[0], gap, pictures[1], gap, pictures[2]]))
        axes["pictures"].set(xticks=[], yticks=[], xlabel="one segment: start, middle, end")
        axes["pictures"].spines[:].set_visible(False)
    for ax in axes.values():
        ax.xaxis.label.set_fontsize(8)
        ax.yaxis.label.set_fontsize(8)


def option_cards(
    cards: Sequence[Card],
    names: Sequence[str],
    action_names: Sequence[str] | None = None,
    discrete: bool = True,
    frames: Mapping[int, Sequence[np.ndarray]] | None = None,
    columns: int = 3,
) -> Figure:
    """A new figure with the cards of all options, on the same scales.

    :param names: names of all options: ``skills.names``
    :param frames: episode -> screens, see :func:`option_card`
    :param columns: cards per row
    """
    check(len(cards) >= 1, "at least one card", "none")
    width, columns = PAGE / columns, min(columns, len(cards))
    rows = math.ceil(len(cards) / columns)
    height = 4.6 if frames else 3.5
    figure = plt.figure(figsize=(columns * width, rows * height), layout="constrained")
    parts = figure.subfigures(rows, columns, squeeze=False, wspace=0.04, hspace=0.04)
    longest_segment = max(int(card.lengths.max()) for card in cards)
    longest_episode = max(int(card.stops.max()) for card in cards) + 1
    for part, card in zip(parts.flat, cards):
        option_card(part, card, names[card.option], action_names, discrete, frames, longest_segment, longest_episode)
    return figure
