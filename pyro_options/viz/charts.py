"""Charts of options and components. Each function draws on given axes."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.ticker import LogLocator, MaxNLocator, StrMethodFormatter
from torch import Tensor

from pyro_options.display.palette import PALETTE, ink, option_color


def usage_bars(ax: Axes, usage: Tensor) -> None:
    """Share of the steps that each option covers.

    :param usage: ``(K,)``
    """
    options = range(len(usage))
    ax.bar(options, 100 * usage.numpy(), color=[option_color(k) for k in options], edgecolor="0.35", linewidth=0.4)
    ax.set(xlabel="option", ylabel="steps in use (%)", title="Usage")
    ax.set_xticks(options[:: math.ceil(len(options) / 12)])


def action_heatmap(
    ax: Axes, probabilities: Tensor, title: str, xlabel: str = "action", options: Sequence[int] | None = None
) -> None:
    """Heat map of action probabilities, one row per option.

    :param probabilities: ``(rows, A)``
    :param options: the option of each row, by default 0, 1, 2, …
    """
    image = ax.imshow(probabilities.numpy(), vmin=0, vmax=1, cmap="cividis", aspect="auto")
    K, A = probabilities.shape
    ax.set(xlabel=xlabel, ylabel="option", title=title, xticks=range(A), yticks=range(K))
    ax.spines[:].set_visible(False)
    ax.set_yticklabels([str(k) for k in (range(K) if options is None else options)])
    for label in ax.get_yticklabels():
        color = option_color(int(label.get_text()))
        label.set(color=ink(color), bbox={"facecolor": color, "edgecolor": "none", "pad": 1.5})
    ax.tick_params(axis="y", length=0, pad=5)
    for k in range(K):
        for a in range(A):
            p = float(probabilities[k, a])
            if p >= 0.05:
                ax.text(a, k, f"{p:.2f}", ha="center", va="center", fontsize=7, color="black" if p > 0.5 else "white")
    ax.figure.colorbar(image, ax=ax, label="probability", fraction=0.05, pad=0.02)


def _write(ax: Axes, x: float, y: float, text: str, option: int) -> None:
    """Writes text that is readable on the colour of an option."""
    ax.text(x, y, text, ha="center", va="center", fontsize=7, color=ink(option_color(option)), weight="bold")


def _number_segments(ax: Axes, options: Tensor, lengths: Tensor) -> None:
    """Writes the option's index on segments with enough room: colours alone do not distinguish many options."""
    for i, (row, length) in enumerate(zip(options, lengths.tolist())):
        values, counts = torch.unique_consecutive(row[:length], return_counts=True)
        starts = counts.cumsum(0) - counts
        for option, start, count in zip(values.tolist(), starts.tolist(), counts.tolist()):
            if count > 0.035 * options.shape[1]:
                _write(ax, start + (count - 1) / 2, i, str(option), option)


def segmentation_strip(ax: Axes, options: Tensor, lengths: Tensor, actions: Tensor | None = None) -> None:
    """The option of each step as colours, one row per trajectory, with option indices where there is room.

    With at most 20 steps, the actions are written into the cells instead.

    :param options: ``(N, T)``
    :param lengths: ``(N,)``
    :param actions: discrete actions ``(N, T)``
    """
    shown = np.ma.masked_array(options.numpy() % len(PALETTE))
    shown[np.arange(options.shape[1]) >= lengths.numpy()[:, None]] = np.ma.masked
    ax.imshow(shown, cmap=ListedColormap(PALETTE), vmin=0, vmax=len(PALETTE) - 1, aspect="auto", interpolation="none")
    N, T = options.shape
    ax.set(xlabel="time step", ylabel="trajectory", title="Segmentation into options", yticks=range(N))
    ax.spines[:].set_visible(False)
    ax.set_yticks(np.arange(-0.5, N), minor=True)
    ax.grid(which="minor", axis="y", color="white", linewidth=2)
    ax.tick_params(which="minor", length=0)
    if T <= 20:
        ax.set_xticks(range(T))
    if actions is not None and T <= 20:
        for i in range(N):
            for t in range(int(lengths[i])):
                _write(ax, t, i, str(int(actions[i, t])), int(options[i, t]))
    elif T > 20:
        _number_segments(ax, options, lengths)


def segment_lengths(ax: Axes, options: Tensor, lengths: Tensor) -> None:
    """Survival curve of segment lengths: share of each option's segments that have at least that length.

    :param options: option of each segment ``(segments,)``
    :param lengths: number of steps of each segment ``(segments,)``
    """
    counts = np.bincount(options.numpy())
    for k in np.flatnonzero(counts >= max(10, 0.01 * counts.sum())):
        steps = np.sort(lengths[options == int(k)].numpy())
        share = 1 - np.arange(len(steps)) / len(steps)
        ax.step(steps, share, where="pre", color=option_color(int(k)), linewidth=1.5)
    ax.set(xlabel="length of a segment (steps)", ylabel="share at least so long", title="Segment lengths", xscale="log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.minorticks_off()
    ax.set_ylim(0, 1.02)


def recovered_options(ax: Axes, needed: list[int], recovered: list[int], success: list[bool]) -> None:
    """Number of options found against the number needed, one mark per run; coinciding marks are spread sideways.

    :param needed: options that each run needs
    :param recovered: options that it found
    :param success: whether it solved its task
    """
    needed_, recovered_, success_ = np.array(needed), np.array(recovered), np.array(success)
    spread = np.zeros(len(needed_))
    for point in set(zip(needed, recovered)):
        same = (needed_ == point[0]) & (recovered_ == point[1])
        spread[same] = np.linspace(-0.4, 0.4, same.sum() + 2)[1:-1]
    for mark, ok, color in (("o", True, PALETTE[0]), ("x", False, PALETTE[5])):
        chosen = success_ == ok
        label = "success" if ok else "failure"
        ax.plot((needed_ + spread)[chosen], recovered_[chosen], mark, color=color, label=label, markersize=3.5)
    line = np.array([needed_.min(), needed_.max()])
    ax.plot(line, line, color="0.6", linewidth=1, label=r"$K = n_V$")
    ax.plot(line, line + 1, color="0.6", linewidth=1, linestyle="--", label=r"$K = n_V + 1$")
    if line[0] < line[1]:
        slope, start = np.polyfit(needed_, recovered_, 1)
        formula = rf"regression: $K = {slope:.2f}\,n_V {start:+.2f}$"
        ax.plot(line, start + slope * line, color=PALETTE[4], linewidth=2, zorder=0, label=formula)
    ax.set(xlabel=r"vocabulary size $n_V$", ylabel="options K", xticks=sorted(set(needed)))
    ax.legend(loc="upper left", fontsize=8)


def component_counts(ax: Axes, probabilities: Tensor, truth: int | None = None) -> None:
    """Bar chart of the posterior over the number of components in use.

    :param probabilities: of 0, 1, …, K components, ``(K + 1,)``
    :param truth: the true number
    """
    numbers = np.arange(len(probabilities))
    ax.bar(numbers, probabilities.numpy(), color=PALETTE[0], width=0.8)
    if truth is not None:
        ax.axvline(truth, color=PALETTE[5], linestyle="--", linewidth=1.5, label=f"truth: {truth}")
        ax.legend(loc="upper left")
    seen = numbers[probabilities.numpy() > 0]
    ax.set(xlabel="components in use", ylabel="posterior probability", title="How many?", ylim=(0, 1.05))
    ax.set_xlim(seen.min() - 3, seen.max() + 3)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def clusters(ax: Axes, rows: Tensor, labels: Tensor, means: Tensor, covariances: Tensor) -> None:
    """Scatter plot of two-dimensional data, coloured by component, with the 90 % ellipse of each component.

    :param rows: ``(N, 2)``
    :param labels: component of each row, ``(N,)``
    :param means: ``(K, 2)``
    :param covariances: ``(K, 2, 2)``
    """
    ax.scatter(rows[:, 0].numpy(), rows[:, 1].numpy(), s=6, c=[option_color(int(k)) for k in labels], linewidths=0)
    circle = np.stack([np.cos(np.linspace(0, 2 * np.pi, 100)), np.sin(np.linspace(0, 2 * np.pi, 100))])
    for k in labels.unique().tolist():
        values, vectors = np.linalg.eigh(covariances[k].numpy())
        ellipse = vectors @ (np.sqrt(4.605 * values)[:, None] * circle) + means[k].numpy()[:, None]
        ax.plot(*ellipse, color=option_color(k), linewidth=1.5)
    ax.set(xlabel="first coordinate", ylabel="second coordinate")
    ax.set_aspect("equal", "datalim")
