"""How Sphinx builds these pages: ``sphinx-build -W -b html docs docs/_build``. Nothing is fetched from the network."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "pyro_options"
author = "The pyro_options authors"
project_copyright = author
version = release = installed("pyro-options")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "api",
    "gallery",
    "mathml",
    "studies",
]
exclude_patterns = ["_build"]
templates_path: list[str] = []

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are committed with their outputs; a test runs them

autodoc_inherit_docstrings = False  # gymnasium's and torch's are written for another markup
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"pyro_options {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_math_renderer = "mathml"
html_copy_source = html_show_sourcelink = False

#: files of the repository, as the pages link to them -> the pages here that include them
TWINS = {
    "../SECURITY.md": "security.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
    "../examples/results/compare/compare.md": "studies/compare.md",
    "../examples/results/reproduce/full/README.md": "studies/reproduce.md",
}


def link_twins(app, name: str, source: list[str]) -> None:
    """Links that are right where the files lie lead to the pages that include them."""
    for root, twin in TWINS.items():
        source[0] = source[0].replace(f"]({root})", f"]({twin})")


def setup(app) -> None:
    app.connect("source-read", link_twins)
