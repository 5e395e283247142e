"""Brings the tables in the README and in the pages up to date with the committed raw results::

    python docs/_ext/update_tables.py

A table lies between two comments, so that a page shows it wherever it is read, on a code hosting site too::

    <!-- table: recovery -->
    ...
    <!-- end of table -->
"""

import re
from pathlib import Path

from raw import ROOT
from readme import results
from tables import TABLES

MAKERS = TABLES | {"results": results}
_TABLE = re.compile(r"^<!-- table: (\w+) -->\n.*?^<!-- end of table -->$", re.DOTALL | re.MULTILINE)


def pages() -> list[Path]:
    """Every page that may have tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def names(text: str) -> list[str]:
    """Names of the tables on a page."""
    return _TABLE.findall(text)


def updated(text: str) -> str:
    """A page with its tables as the raw results are now."""

    def table(found: re.Match[str]) -> str:
        name = found[1]
        return f"<!-- table: {name} -->\n\n{MAKERS[name]().strip()}\n\n<!-- end of table -->"

    return _TABLE.sub(table, text)


if __name__ == "__main__":
    for page in pages():
        page.write_text(updated(page.read_text()))
