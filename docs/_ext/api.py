"""The API reference: a page for every package, and for ``errors``, the one module beside them.

A name is public if ``__init__.pyi`` of its package lists it, or if ``errors`` defines it. Import it from there:
``from pyro_options.skills import Skills``. Files inside a package may change.
"""

import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType

from pages import heading, write_pages
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer

import pyro_options

#: in the order in which a reader wants them; others follow
FIRST = ("discovery", "skills", "data", "models", "guides", "infer", "growth", "handlers", "distributions")


def public_modules() -> list[str]:
    """Names of ``errors`` and of all packages with public names, each before those inside it."""
    top = [found.name for found in pkgutil.iter_modules(pyro_options.__path__) if found.name != "__main__"]
    top += {"models", "guides"} - set(top)  # folders at the root, which only an installed package maps
    ranks = {name: rank for rank, name in enumerate(FIRST)}
    names = []
    for name in sorted(top, key=lambda name: (ranks.get(name, len(ranks)), name)):
        names.append(f"pyro_options.{name}")
        module = importlib.import_module(names[-1])
        inside = pkgutil.walk_packages(getattr(module, "__path__", []), f"{names[-1]}.")
        packages = sorted(found.name for found in inside if found.ispkg)
        names += [name for name in packages if public_names(importlib.import_module(name))]
    return names


def public_names(module: ModuleType) -> list[str]:
    """What ``__all__`` lists, or what a module defines without an underscore."""
    defined = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", [name for name in defined if not name.startswith("_")])
    return [name for name in names if not inspect.ismodule(getattr(module, name))]


def _comments() -> dict[str, list[str]]:
    """The ``#:`` comments of module-level data, by the name of the data."""
    found: dict[str, list[str]] = {}
    for module in pkgutil.walk_packages(pyro_options.__path__, "pyro_options."):
        for (owner, name), lines in ModuleAnalyzer.for_module(module.name).find_attr_docs().items():
            if not owner:
                found[name] = lines
    return found


def _constants(module: ModuleType) -> list[str]:
    """Entries for data that a package passes on: Sphinx reads their comments only where they are defined."""
    own = {name for _, name in ModuleAnalyzer.for_module(module.__name__).find_attr_docs()}
    lines: list[str] = []
    for name in public_names(module):
        value = getattr(module, name)
        if name not in own and not inspect.isclass(value) and not inspect.isroutine(value):
            lines += [f".. py:data:: {name}", "", *(f"   {line}" for line in _comments()[name]), ""]
    return lines


def _section(name: str, mark: str) -> list[str]:
    module = importlib.import_module(name)
    for member in getattr(module, "__all__", []):  # autodoc sees only what is there: some are imported when first used
        setattr(module, member, getattr(module, member))
    options = ["   :imported-members:"] if hasattr(module, "__all__") else []
    constants = _constants(module)
    if constants:
        constants = [f".. py:currentmodule:: {name}", "", *constants]
    return [*heading(name, mark), f".. automodule:: {name}", *options, "", *constants]


def pages() -> dict[str, str]:
    """The pages by name, with an index."""
    sections: dict[str, list[str]] = {}
    index = [*heading("API reference"), (__doc__ or "").partition("\n")[2].strip(), ""]
    index += ["``pyro_options.discover`` and ``pyro_options.Skills`` are short for"]
    index += [":func:`pyro_options.discovery.discover` and :class:`pyro_options.skills.Skills`.", ""]
    index += [".. list-table::", "   :widths: 30 70", ""]
    for name in public_modules():
        page, module = name.split(".")[1], importlib.import_module(name)
        first = (module.__doc__ or "").partition("\n")[0]
        links = ", ".join(f":py:obj:`~{name}.{member}`" for member in public_names(module))
        index += [f"   * - :doc:`{name} <{page}>`", f"     - {first}", "", f"       {links}"]
        sections.setdefault(page, []).extend(_section(name, "=" if name.count(".") == 1 else "-"))
    index += ["", ".. toctree::", "   :hidden:", "", *(f"   {page}" for page in sections), ""]
    return {page: "\n".join(lines) for page, lines in sections.items()} | {"index": "\n".join(index)}


def setup(app: Sphinx) -> dict:
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "api", pages()))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
