"""The page: a template of this package with data put in, safe whatever the data are."""

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

#: what could end or open something around a script; the rest of Unicode is escaped by JSON itself
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&"}


def json_in_script(data: Any) -> str:
    """JSON that cannot end or open anything around it: it holds no ``<``, ``>`` or ``&``, which only strings can."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(_UNSAFE)


#: in this order: later ones use what earlier ones define
_SCRIPTS = ("elements.js", "overview.js", "cards.js", "timelines.js", "main.js")


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def render(title: str, data: Any) -> str:
    """The whole file. Its policy lets the browser run this script and these styles and load nothing from anywhere.

    :param data: what the script draws; anything that JSON can hold
    """
    style = _asset("report.css")
    script = '"use strict";\n{\n' + "".join(map(_asset, _SCRIPTS)) + "}\n"  # braces keep its names out of the page
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
    parts = {
        "POLICY": html.escape(policy + "base-uri 'none'; form-action 'none'", quote=False),
        "TITLE": html.escape(title),
        "STYLE": style,
        "DATA": json_in_script(data),
        "SCRIPT": script,
    }
    template = _asset("report.html")
    pieces = template.split("@@")  # text, name, text, name, …, text: what is put in is never looked at again
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))
