"""Renders the HTML template of the report; the data are escaped, so they cannot inject markup or code."""

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

#: characters that could close the script element or open another; json.dumps escapes all that are not ASCII
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}


def json_in_script(data: Any) -> str:
    """JSON that is safe inside a script element: ``<``, ``>`` and ``&`` are escaped, which occur in strings only."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(_UNSAFE)


#: concatenated in this order: later scripts use names that earlier ones define
_SCRIPTS = ("elements.js", "overview.js", "comparison.js", "cards.js", "timelines.js", "main.js")


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def render(title: str, data: Any) -> str:
    """The whole page. Its content security policy allows only its own script and styles, and no network access.

    :param data: JSON values that the script draws
    """
    style = _asset("report.css")
    script = '"use strict";\n{\n' + "".join(map(_asset, _SCRIPTS)) + "}\n"  # a block keeps its names out of the globals
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
    parts = {
        "POLICY": html.escape(policy + "base-uri 'none'; form-action 'none'", quote=False),
        "TITLE": html.escape(title),
        "STYLE": style,
        "DATA": json_in_script(data),
        "SCRIPT": script,
    }
    template = _asset("report.html")
    pieces = template.split("@@")  # text, name, text, …, text; inserted values are not scanned for placeholders again
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))
