"""Fragments of HTML for notebooks: styles inside, no scripts, every text escaped, readable on light and dark pages."""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import groupby

from .palette import PALETTE, ink

_FRAME = "border:1px solid #8886;border-radius:8px;padding:8px 10px"
_SOFT = "opacity:.7;font-size:90%"


def panel(title: str, *parts: str) -> str:
    """A titled block of fragments."""
    return f'<div style="max-width:960px"><div><b>{escape(title)}</b></div>{"".join(parts)}</div>'


def facts(lines: Iterable[str]) -> str:
    """Lines of text below each other."""
    return "".join(f'<div style="{_SOFT}">{escape(line)}</div>' for line in lines)


def cards(each: Iterable[str]) -> str:
    """Cards side by side, as many as fit."""
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px;margin:6px 0">{"".join(each)}</div>'


def card(number: int, name: str, color: str, *parts: str) -> str:
    """A framed card with a coloured number and a name."""
    look = f"background:{color};color:{ink(color)};border-radius:5px;padding:0 6px;font-weight:700"
    title = f'<span style="{look}">{number}</span> <b>{escape(name)}</b>'
    return f'<div style="{_FRAME};flex:1 1 220px;max-width:300px"><div>{title}</div>{"".join(parts)}</div>'


def bars(shares: Sequence[tuple[str, float]], color: str) -> str:
    """A bar for each name and share."""
    rows = []
    for name, share in shares:
        filled = f"width:{100 * min(max(share, 0.0), 1.0):.1f}%;background:{color};height:8px;border-radius:4px"
        inner = f'<span style="display:block;{filled}"></span>'
        bar = f'<span style="flex:1;background:#8883;border-radius:4px">{inner}</span>'
        label = f'<span style="flex:0 0 40%;overflow:hidden;text-overflow:ellipsis">{escape(name)}</span>'
        rows.append(
            f'<div style="display:flex;gap:6px;align-items:center;font-size:90%">{label}{bar}'
            f'<span style="flex:0 0 3em;text-align:right">{100 * share:.0f}%</span></div>'
        )
    return "".join(rows)


def runs(values: Sequence[int]) -> list[tuple[int, int, int]]:
    """Value, start and end of each stretch of equal values: ``start <= t < end``.

    >>> runs([3, 3, 1])
    [(3, 0, 2), (1, 2, 3)]
    """
    found, start = [], 0
    for value, group in groupby(values):
        end = start + sum(1 for _ in group)
        found.append((value, start, end))
        start = end
    return found


def _drawing(label: str, width: int, height: int, share: float, body: str) -> str:
    """A drawing with a label to its left, as wide as ``share`` of the room."""
    look = (
        f'viewBox="0 0 {width} {height}" preserveAspectRatio="none" style="width:{100 * share:.1f}%;height:{height}px"'
    )
    name = f'<span style="flex:0 0 6em;{_SOFT}">{escape(label)}</span>'
    drawn = f'<span style="flex:1;line-height:0"><svg {look}>{body}</svg></span>'
    return f'<div style="display:flex;align-items:center;margin:2px 0">{name}{drawn}</div>'


def strip(label: str, values: Sequence[int], title: Callable[[int], str], longest: int) -> str:
    """A timeline of integers as coloured stretches, whose titles show under the pointer.

    :param longest: steps of the longest timeline beside it
    """
    parts = []
    for value, start, end in runs(values):
        about = escape(f"{title(value)}, steps {start} to {end - 1}")
        color = PALETTE[value % len(PALETTE)]
        parts.append(
            f'<rect x="{start}" y="0" width="{end - start}" height="14" fill="{color}"><title>{about}</title></rect>'
        )
    return _drawing(label, len(values), 14, len(values) / longest, "".join(parts))


def series(label: str, columns: Sequence[Sequence[float]], low: float, high: float, longest: int) -> str:
    """A timeline of numbers as lines, one for each column.

    :param low: the smallest number of all timelines
    :param high: the largest
    """
    lines, span = [], (high - low) or 1.0
    for i, column in enumerate(columns):
        points = " ".join(f"{t + 0.5:g},{30 - 28 * (value - low) / span:.1f}" for t, value in enumerate(column))
        color = PALETTE[i % len(PALETTE)]
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5" '
            'vector-effect="non-scaling-stroke"/>'
        )
    steps = len(columns[0])
    return _drawing(label, steps, 32, steps / longest, "".join(lines))
