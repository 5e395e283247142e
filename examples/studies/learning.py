"""Learning curves of games, arms and seeds: subsampling, tables and figures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.ticker import EngFormatter

from pyro_options import viz
from pyro_options.experiments import curve_band

from .summary import cell, groups, markdown, span

POINTS = 60  # maximum number of points stored per curve


def whole_rounds(rows: Sequence[dict]) -> list[dict]:
    """The runs of one game with a seed that all arms have completed, for a fair comparison in an unfinished study."""
    arms = {row["arm"] for row in rows}
    return [row for row in rows if {other["arm"] for other in rows if other["seed"] == row["seed"]} == arms]


def final_return(rows: Sequence[dict], steps: int) -> float | None:
    """Mean return over the last sixth of the decisions, as in the paper; ``None`` if no game ended in it."""
    values = [row["return"] for row in rows if row["steps"] > steps * 5 / 6 and "return" in row]
    return float(np.mean(values)) if values else None


def thinned(rows: Sequence[dict]) -> dict[str, list]:
    """A learning curve as columns, subsampled to ``POINTS`` entries; the return is ``None`` until a game ends."""
    kept = np.unique(np.linspace(0, len(rows) - 1, POINTS).astype(int)) if rows else []
    curve = {key: [rows[i][key] for i in kept] for key in ("steps", "frames")}
    returns = [rows[i].get("return") for i in kept]
    return curve | {"return": [None if value is None else round(value, 3) for value in returns]}


def points(curve: dict[str, list], axis: str) -> np.ndarray:
    """x values on an axis (``steps`` or ``frames``) and returns of a curve, ``(2, points)``."""
    known = [(x, value) for x, value in zip(curve[axis], curve["return"]) if value is not None]
    return np.array(known, dtype=float).reshape(-1, 2).T


def return_at(curve: dict[str, list], frames: int) -> float | None:
    """The return of a run after ``frames`` frames; ``None`` if no game had ended.

    Interpolated, since the stored points are far apart in frames where skills last long.
    """
    at, values = points(curve, "frames")
    return float(np.interp(frames, at, values)) if (at <= frames).any() else None


def average(curve: dict[str, list]) -> float | None:
    """Mean return over all decisions of a run, a measure of learning speed; ``None`` if no game ended."""
    values = points(curve, "steps")[1]
    return float(values.mean()) if len(values) else None


def table(rows: list[dict]) -> str:
    """The table of one game: returns at the end, on average, and after the number of frames that all runs reached."""
    frames = min(row["curve"]["frames"][-1] for row in rows)
    lines = []
    for arm, mine in groups(rows, lambda row: row["arm"]).items():
        curves = [row["curve"] for row in mine]
        columns = (
            [row["final_return"] for row in mine],
            [average(curve) for curve in curves],
            [return_at(curve, frames) for curve in curves],
        )
        options = span([row["num_options"] for row in mine]), cell([row["mean_duration"] for row in mine], ".1f")
        returns = ["no game ended" if None in values else cell(values, ".2f") for values in columns]
        lines.append([arm, len(mine), *options, *returns])
    steps = f"{rows[0]['total_steps']:,} decisions"
    header = "arm", "seeds", "options", "steps of a decision", f"return after {steps}", "on average until then"
    header = *header, f"after {frames:,} frames"
    return markdown(header, lines)


def page(rows: list[dict], figure_name: str) -> str:
    """The Markdown page with all games."""
    parts = [
        "# PPO with skills on Atari games\n",
        "Returns of whole games, unclipped: the mean over the last sixth of the decisions as in the paper, over all of"
        " them, and over the last games when so many frames had been seen. Interquartile means over seeds, with 95 %"
        " bootstrap intervals. A decision is an action or a whole skill. An arm without @K found its number of options"
        " by itself, but for bc, which has one; with +imitation all of them together are one more skill. Every run,"
        " with the command that made it, is in the JSON file of its game.\n",
    ]
    for game, mine in groups(rows, lambda row: row["game"]).items():
        parts += [f"## {game}\n", table(mine)]
    return "\n".join([*parts, f"![Learning curves]({figure_name})\n"])


def figure(rows: list[dict], path: Path) -> None:
    """Learning curves of all arms against decisions and frames, a row of panels for each game."""
    games = groups(rows, lambda row: row["game"])
    arms = list(groups(rows, lambda row: row["arm"]))
    with viz.style():
        size = (viz.PAGE, 0.6 + 2.6 * len(games))
        layout = {"layout": "constrained", "sharey": "row", "squeeze": False}
        fig, axes = viz.plt.subplots(len(games), 2, figsize=size, **layout)
        for line, (game, mine) in zip(axes, games.items()):
            for ax, axis, label in zip(line, ("steps", "frames"), ("decisions", "frames of the emulator")):
                for arm, curves in groups(mine, lambda row: row["arm"]).items():
                    _draw(ax, [row["curve"] for row in curves], axis, arm, viz.PALETTE[arms.index(arm)])
                ax.set(xlabel=label)
                ax.xaxis.set_major_formatter(EngFormatter())
            line[0].set(ylabel=f"{game}: return of a game")
        named = {label: line for ax in axes[:, 0] for line, label in zip(*ax.get_legend_handles_labels())}
        if named:
            fig.legend(named.values(), named.keys(), loc="outside lower center", ncols=3)
        seeds = span([len(one) for one in groups(rows, lambda row: f"{row['game']} {row['arm']}").values()])
        fig.suptitle(f"PPO with skills and without (seeds: {seeds}; 95 % intervals)")
        fig.savefig(path)
        viz.plt.close(fig)


def _draw(ax, curves: list[dict], axis: str, arm: str, color: str) -> None:
    lines = [points(curve, axis) for curve in curves]
    if not all(line.size for line in lines):
        return
    band = curve_band([line[0] for line in lines], [line[1] for line in lines])
    ax.plot(band.x, band.center, color=color, linewidth=2, label="no skills" if arm == "none" else arm)
    ax.fill_between(band.x, band.low, band.high, color=color, alpha=0.15, linewidth=0)
