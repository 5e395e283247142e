"""Reports that the studies in ``examples/`` have written, if they are committed."""

from pathlib import Path

from pages import write_pages
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "examples" / "results"
#: name of a page -> what may be shown there, the best first
CANDIDATES = {
    "reproduce": [RESULTS / "reproduce" / preset / "README.md" for preset in ("paper", "full", "quick")],
    "compare": [RESULTS / "compare" / "compare.md"],
    "atari_ppo": [RESULTS / "atari_ppo" / "atari_ppo.md"],
}


def pages() -> dict[str, str]:
    """The pages by name, with an index."""
    found = {name: next((path for path in paths if path.exists()), None) for name, paths in CANDIDATES.items()}
    shown = {name: path.relative_to(ROOT) for name, path in found.items() if path is not None}
    made = {name: f"```{{include}} ../../{path}\n:relative-images:\n```\n" for name, path in shown.items()}
    lines = ["# Studies", "", "Reports that the examples write, from the committed raw runs beside them.", ""]
    lines += [f"- [`python examples/{name}.py`]({name}.md), from `{path}`" for name, path in shown.items()]
    lines += ["", "```{toctree}", ":hidden:", "", *shown, "```", ""]
    return made | {"index": "\n".join(lines)}


def setup(app: Sphinx) -> dict:
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "studies", pages(), ".md"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
