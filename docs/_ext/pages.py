"""Pages that the build writes."""

from collections.abc import Mapping
from pathlib import Path


def heading(text: str, mark: str = "=") -> list[str]:
    """A title in reStructuredText."""
    return [text, mark * len(text), ""]


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
