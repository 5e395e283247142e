"""Tables and figures over seeds: interquartile means with 95 % bootstrap intervals."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pyro_options.experiments import bootstrap_interval, interquartile_mean
from pyro_options.viz import PALETTE


class Interval(NamedTuple):
    """Interquartile mean of several runs, and its bootstrap interval."""

    center: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    return Interval(float(interquartile_mean(values)), *bootstrap_interval(values))


def cell(values: Sequence[float], form: str = ".3f") -> str:
    """``center [low, high]``, or one number if the three are equal as printed."""
    texts = [f"{x:{form}}" for x in interval(values)]
    return texts[0] if len(set(texts)) == 1 else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def span(values: Sequence[float], form: str = "g") -> str:
    """``min to max``, or one number if they are equal as printed."""
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"


def groups(rows: Iterable[dict], key: Callable[[dict], str]) -> dict[str, list[dict]]:
    """Groups rows by a key, in order of first appearance."""
    found: dict[str, list[dict]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def point_ranges(
    ax: Axes, values: Mapping[str, Sequence[float]], xlabel: str, colors: Sequence[str] = (), labels: bool = True
) -> None:
    """One line per group, from top to bottom: a dot per run, and the interquartile mean with its interval.

    :param values: name of a group -> one number per run
    :param colors: colour of each group
    :param labels: whether to write the names of the groups
    """
    for place, numbers in enumerate(values.values()):
        color = colors[place] if colors else PALETTE[0]
        center, low, high = interval(numbers)
        ax.plot(numbers, [place] * len(numbers), "o", color=color, alpha=0.35, markersize=4, markeredgewidth=0)
        ax.plot([low, high], [place, place], color=color, linewidth=2.5, solid_capstyle="round")
        ax.plot(center, place, "D", color=color, markersize=6, markeredgecolor="white")
    ax.set(xlabel=xlabel, ylim=(len(values) - 0.5, -0.5), yticks=range(len(values)))
    ax.set_yticklabels(values if labels else [])
    if all(isinstance(x, int) for numbers in values.values() for x in numbers):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.grid(axis="y", color="0.92")
    ax.set_axisbelow(True)
