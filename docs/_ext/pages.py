"""Pages that the build writes, and what stands on them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def heading(text: str, mark: str = "=") -> list[str]:
    """A title in reStructuredText."""
    return [text, mark * len(text), ""]


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def span(values: Iterable[float], form: str = "g") -> str:
    """The least and the most, or the one number that all are."""
    given = list(values)
    low, high = f"{min(given):{form}}", f"{max(given):{form}}"
    return low if low == high else f"{low} to {high}"


def write_pages(folder: Path, pages: Mapping[str, str], suffix: str = ".rst") -> None:
    """Writes pages by name, leaves alone those that have not changed, and removes those that are no more."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob(f"*{suffix}"):
        if old.stem not in pages:
            old.unlink()
    for name, content in pages.items():
        path = folder / f"{name}{suffix}"
        if not path.exists() or path.read_text() != content:
            path.write_text(content)
