"""Interactive reports of skills as one self-contained HTML file: no server, no network access."""

from .write import write_report

__all__ = ["write_report"]
