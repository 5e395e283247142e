"""Draws the layers of the library as ``docs/_static/layers.svg``::

    python docs/_ext/layers.py

``LAYERS`` of ``tests/architecture/test_layers.py`` says what a package may import; a test compares the two.
"""

from html import escape
from pathlib import Path

PICTURE = Path(__file__).parents[1] / "_static" / "layers.svg"

#: rows from the bottom up: kind of the row, and its packages from left to right with what they are about
ROWS: tuple[tuple[str, dict[str, str]], ...] = (
    ("base", {"errors": "every check and every exception", "display": "colours, HTML for notebooks"}),
    ("base", {"kernels": "numba loops, and when they are used"}),
    (
        "core",
        {
            "distributions": "sticks, mixtures, log space",
            "growth": "contracts, rules, births, removals",
            "handlers": "collapse, temper, observe, grow",
        },
    ),
    (
        "parts",
        {
            "nn": "networks",
            "mixtures": "conjugate components",
            "options": "paths, policies",
            "segments": "CompILE",
            "data": "Trajectories, readers",
        },
    ),
    ("pyro", {"models": "every p", "guides": "every q"}),
    ("use", {"infer": "SVI loop, schedules, restarts, component counts"}),
    ("use", {"skills": "act, segment, describe, save"}),
    (
        "top",
        {
            "discovery": "registries, discover()",
            "envs": "tasks, experts",
            "rl": "PPO, DQN with γ^τ",
            "viz": "plots, report, GIFs",
        },
    ),
    ("top", {"cli": "the command pyro-options"}),
    ("top", {"": "discover, Skills"}),
)

#: a second pile beside the first, from the bottom up
SIDE: tuple[tuple[str, str, str], ...] = (
    ("side", "persistence", "checkpoints, resuming"),
    ("side", "experiments", "grids of runs, statistics"),
)

#: kind of a row -> fill and frame, in light and in dark mode
COLORS = {
    "base": (("#e3e5e8", "#878e96"), ("#3a3f46", "#8b939c")),
    "core": (("#cfe3f7", "#3f7fbf"), ("#1d3f61", "#6aa5dd")),
    "parts": (("#d5ecdc", "#3f9460"), ("#1f4630", "#6cbf8b")),
    "pyro": (("#f8e3c4", "#c0842b"), ("#54390f", "#dfa850")),
    "use": (("#e6daf3", "#8560b5"), ("#3d2b57", "#b193da")),
    "top": (("#f9d9dc", "#c05a66"), ("#5a262d", "#e28791")),
    "side": (("#fbfbfb", "#878e96"), ("#26292e", "#8b939c")),
}

#: row -> what it is, beside it
LABELS = {
    7: ("entry points", "nothing below", "imports these"),
    5: ("training",),
    4: ("Pyro programs", "never import", "each other"),
    3: ("parts",),
    2: ("growth core", "for any mixture", "model"),
    0: ("base",),
}

WIDTH, LEFT, MAIN, HEIGHT, GAP, MARGIN = 1000, 124, 770, 52, 14, 20


def positions() -> dict[str, tuple[float, int]]:
    """Where each package is drawn: its row, and its place in the row. It imports from earlier places only."""
    found = {name: (float(row), place) for row, (_, names) in enumerate(ROWS) for place, name in enumerate(names)}
    return found | {name: (0.5 + step, 0) for step, (_, name, _) in enumerate(SIDE)}


def _style() -> str:
    def rules(mode: int, back: str, ink: str, faint: str) -> str:
        lines = [f".back {{ fill: {back} }} text {{ fill: {ink} }} .faint {{ fill: {faint} }}"]
        lines += [f".{kind} {{ fill: {c[mode][0]}; stroke: {c[mode][1]} }}" for kind, c in COLORS.items()]
        return "\n".join(lines)

    light, dark = rules(0, "#ffffff", "#1b1f24", "#4b535c"), rules(1, "#16181c", "#f0f2f4", "#c3cad1")
    names = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
    texts = "system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif"
    fonts = f"text {{ text-anchor: middle; font-family: {texts}; font-size: 12px }}\n"
    fonts += f".name {{ font-family: {names}; font-size: 15px; font-weight: 600 }}\n.label {{ font-weight: 600 }}"
    return f"{fonts}\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


def _box(kind: str, name: str, about: str, left: float, top: float, width: float, height: float = HEIGHT) -> list[str]:
    middle, center = left + width / 2, top + height / 2
    shape = f'<rect class="{kind}" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="7"/>'
    title = f'<text class="name" x="{middle:g}" y="{center - 4:g}">{escape(name or "pyro_options")}</text>'
    return [shape, title, f'<text class="faint" x="{middle:g}" y="{center + 15:g}">{escape(about)}</text>']


def _row(kind: str, names: dict[str, str], top: float) -> list[str]:
    """Boxes as wide as what stands in them asks for; the roof stands on the first box of its row alone."""
    needs = [max(9.2 * len(name), 6.2 * len(about)) for name, about in names.items()]
    spare = (MAIN - LEFT - GAP * (len(names) - 1) - sum(needs)) / len(names) if [*names] != [""] else 64
    lines, left = [], float(LEFT)
    for (name, about), need in zip(names.items(), needs):
        lines += _box(kind, name, about, left, top, need + spare)
        left += need + spare + GAP
    return lines


def _note(lines: tuple[str, ...], x: float, center: float) -> list[str]:
    """Words that stand beside boxes."""
    first = center + 4 - 8 * (len(lines) - 1)
    return [
        f'<text class="{"label" if i == 0 else "faint"}" x="{x:g}" y="{first + 16 * i:g}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    ]


def picture() -> str:
    """The SVG, with a background of its own: it can be read on any page."""
    pitch = HEIGHT + GAP
    total = 2 * MARGIN + len(ROWS) * pitch - GAP + 26
    bottom = total - MARGIN - 26 - HEIGHT
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {total}" role="img">']
    lines += ["<title>The layers of pyro_options</title>", f"<style>\n{_style()}\n</style>"]
    lines += [f'<rect class="back" width="{WIDTH}" height="{total}" rx="10"/>']
    for row, (kind, names) in enumerate(ROWS):
        lines += _row(kind, names, bottom - row * pitch)
        lines += _note(LABELS.get(row, ()), LEFT / 2, bottom - row * pitch + HEIGHT / 2)
    left, width = MAIN + 2 * GAP, WIDTH - MARGIN - MAIN - 2 * GAP
    for step, (kind, name, about) in enumerate(SIDE):
        lines += _box(kind, name, about, left, bottom - (step + 1) * pitch, width)
    lines += _note(("files", "models and guides", "import neither"), left + width / 2, bottom + HEIGHT / 2)
    foot = "A package may import from the rows below it, and from its left in its own row."
    lines += [f'<text class="faint" x="{WIDTH / 2:g}" y="{total - 16}">{foot}</text>', "</svg>"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture())
