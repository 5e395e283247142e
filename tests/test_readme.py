"""What the README says is run."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippets_run_and_the_first_finds_the_two_skills(number, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(SNIPPETS[number], f"README snippet {number}", "exec"), {})
    output = capsys.readouterr().out
    assert output and (number or output.startswith("2 options"))


def test_every_linked_file_exists():
    for link in re.findall(r"\]\(((?!http)[^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_ci_runs_the_readmes_test_command():
    install, test = re.search(r'&& (pip install [^\n]*\[test\]") && (python -m pytest -n 2)', README).groups()
    ci = (ROOT / ".ci/run").read_text()
    assert install.replace("pip install", "") in ci and test in ci


def test_every_package_is_listed_for_the_wheel():
    """Package discovery cannot see the mapped folders, so the list is kept by hand."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent for path in (ROOT / "pyro_options").rglob("__init__.py")}
    found = {str(folder.relative_to(ROOT)).replace("/", ".") for folder in folders}
    assert set(setuptools["packages"]) == found | {"pyro_options.models", "pyro_options.guides"}
