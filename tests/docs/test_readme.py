"""What the README says of installation and packages holds; ``test_docs.py`` runs its snippets."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_ci_runs_the_readmes_test_command_and_then_what_it_leaves_out():
    install, test = re.search(r'&& (pip install [^\n]*\[test\]") && (python -m pytest -n 2)', README).groups()
    ci = (ROOT / ".ci/run").read_text()
    assert install.replace("pip install", "") in ci
    assert re.findall(r"^python -m pytest.*", ci, re.MULTILINE) == [
        test,
        f"{test} -m slow",
        "python -m pytest -m benchmark",
    ]
    left_out = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"][-1]
    assert left_out == "not slow and not benchmark"


def test_every_package_is_listed_for_the_wheel():
    """Package discovery cannot see the mapped folders, so the list is kept by hand."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent for path in (ROOT / "pyro_options").rglob("__init__.py")}
    found = {str(folder.relative_to(ROOT)).replace("/", ".") for folder in folders}
    assert set(setuptools["packages"]) == found | {"pyro_options.models", "pyro_options.guides"}


def test_the_version_is_the_same_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE).group(1)
    changelog = re.search(r"^## (\S+) \(", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE).group(1)
    assert version == citation == changelog
