"""Skills as one HTML file to look at, send and keep: no network access, no server, nothing to install."""

from .write import write_report

__all__ = ["write_report"]
