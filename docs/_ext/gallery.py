"""The gallery: a page for every example, from its docstring, its source and the picture that it made.

Examples take minutes, so they are not run here; their pictures are committed, and tests run every example on a tiny
budget.
"""

import ast
import re
from pathlib import Path

from pages import heading, write_pages
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def examples() -> dict[str, str]:
    """Name of each example that can be run -> its docstring."""
    found = {path.stem: ast.get_docstring(ast.parse(path.read_text())) for path in sorted(EXAMPLES.glob("*.py"))}
    return {name: text for name, text in found.items() if text}


def picture(name: str) -> Path | None:
    """What an example drew, if that is committed."""
    results = EXAMPLES / "results"
    candidates = [results / f"{name}.png", results / name / f"{name}.png", *sorted((results / name).rglob("*.png"))]
    return next((path for path in candidates if path.exists()), None)


def parts(text: str) -> tuple[str, str]:
    """The first sentence of a docstring, without its full stop, and the rest."""
    first, *rest = re.split(r"(?<=[.?!])\s+", text, maxsplit=1)
    return " ".join(first.split()).removesuffix("."), "".join(rest)


def page(name: str, text: str) -> str:
    """The page of an example, in reStructuredText like its docstring."""
    title, rest = parts(text)
    lines = [f".. _example-{name}:", "", *heading(title), rest, ""]
    drawn = picture(name)
    if drawn is not None:
        lines += [f".. image:: ../../{drawn.relative_to(ROOT)}", f"   :alt: figure of {name}.py", ""]
    return "\n".join([*lines, f".. literalinclude:: ../../examples/{name}.py", "   :language: python", ""])


def notebooks() -> list[str]:
    """Names of the notebooks, which Sphinx reads where they lie."""
    return sorted(path.stem for path in (ROOT / "docs/notebooks").glob("*.ipynb"))


def index(texts: dict[str, str]) -> str:
    """Thumbnails that lead to the pages."""
    lines = [*heading("Gallery"), "Every example is one command. The figures are the committed results.", ""]
    lines += [".. container:: gallery", ""]
    for name, text in sorted(texts.items(), key=lambda item: picture(item[0]) is None):
        drawn = picture(name)
        lines += ["   .. container:: card", ""]
        if drawn is not None:
            lines += [f"      .. image:: ../../{drawn.relative_to(ROOT)}", f"         :alt: {name}.py"]
            lines += [f"         :target: {name}.html", ""]
        lines += [f"      :doc:`{parts(text)[0]} <{name}>`", "", f"      ``examples/{name}.py``", ""]
    lines += ["Notebooks that were run from the top:", ""]
    lines += [f"- :doc:`../notebooks/{name}`" for name in notebooks()]
    entries = [*(f"   ../notebooks/{name}" for name in notebooks()), *(f"   {name}.py <{name}>" for name in texts)]
    return "\n".join([*lines, "", ".. toctree::", "   :hidden:", "", *entries, ""])


def pages() -> dict[str, str]:
    """The pages by name, with an index."""
    texts = examples()
    return {name: page(name, text) for name, text in texts.items()} | {"index": index(texts)}


def setup(app: Sphinx) -> dict:
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "gallery", pages()))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
