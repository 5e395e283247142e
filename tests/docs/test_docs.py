"""What README and docs say is run, linked and complete."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs/_ext"))

import api  # noqa: E402
import gallery  # noqa: E402
import tables  # noqa: E402
import update_tables  # noqa: E402

PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]

#: what the snippets of a page must print, among other things
PROMISES = {
    "README.md": ["^2 options"],
    "index.md": ["^3 options"],
    "first_skills.md": ["^solved with 3 options in use", "birth accepted {", "episodes of 5 steps"],
    "your_data.md": ["^Trajectories\\(80 episodes", "left", "^Trajectories\\(5 episodes"],
    "readers.md": ["^Trajectories\\(3 episodes of 20 steps.*'cue=red'.*'left', 'right'", "episode +option +start"],
    "images.md": ["^Trajectories\\(16 episodes.*8 × 8 × 3", "^states of shape \\(8, 8, 3\\)", "^same: True"],
    "watching.md": ["^phase: restart 2 of 2", "^phase: training", "^epoch 10: -", "^K = \\d+: "],
    "guides.md": ["'type': 'UsageRule', 'delta': 0.25", "^usage$", "^options-exact +-"],
    "decisions.md": ["^states: 3$"],
    "differences.md": ["^K = \\d"],
    "your_guide.md": ["^3 options of weights"],
    "your_loop.md": ["^3 options", "^same: True", "^sticks -> actions$", "^importance sampling agrees: True"],
    "growing_truncation.md": ["^3 kinds of days", "^3 states with rates"],
    "maths.md": ["^recursion (\\S+), all paths \\1$"],
    "performance.md": ["64000 bytes instead of 2048000"],
    "reliability.md": ["^same: True"],
    "cluster.md": ["^Trajectories\\(90 episodes of 50 steps, states 1024 packed bits, 4 discrete actions\\)$"],
    "faq.md": ["^torch.Size\\(\\[2\\]\\)"],
}


def snippets(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def run_page(page: Path) -> dict:
    """The names that a page's snippets leave behind, each of which sees those before it."""
    scope: dict = {"__name__": page.stem}
    for number, code in enumerate(snippets(page)):
        exec(compile(code, f"{page.name}, snippet {number}", "exec"), scope)
    return scope


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page)], ids=lambda page: page.name)
def test_snippets_run_and_print_what_the_page_promises(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = run_page(page)
    output = capsys.readouterr().out
    assert output
    for promise in PROMISES.get(page.name, []):
        assert re.search(promise, output, re.MULTILINE), (promise, output)
    if page.name == "growing_truncation.md":
        rates = sorted(scope["model"].log_rate.exp().tolist())
        assert all(abs(rate - truth) < 0.15 * truth for rate, truth in zip(rates, (2.0, 15.0, 60.0)))


def test_the_page_keeps_its_promise_of_thirty_lines():
    code = snippets(ROOT / "docs/growing_truncation.md")[0].split("class Calls")[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 32


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.name}")
def test_every_linked_file_exists(page):
    made = {"docs/api", "docs/gallery", "docs/studies"}  # by the build
    for link in re.findall(r"\]\(((?!http)[^)#]+)(?:#[^)]*)?\)", page.read_text()):
        target = (page.parent / link).resolve()
        inside = any(target.is_relative_to(ROOT / folder) for folder in made)
        assert inside or target.exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.name}")
def test_commands_name_files_and_arguments_that_exist(page):
    for path, arguments in re.findall(r"python ((?:examples|benchmarks)/\w+\.py)([^\n`]*)", page.read_text()):
        source = (ROOT / path).read_text()
        for flag in re.findall(r"--(?:no-)?([a-z-]+)", arguments):
            assert re.search(rf"\b{flag.replace('-', '_')}\b|--{flag}\b", source), (path, flag)


@pytest.mark.parametrize("page", update_tables.pages(), ids=lambda page: page.name)
def test_tables_on_pages_are_those_of_the_raw_runs(page):
    text = page.read_text()
    assert text.count("<!-- table:") == text.count("<!-- end of table -->") == len(update_tables.names(text))
    assert text == update_tables.updated(text), "run: python docs/_ext/update_tables.py"
    assert "_generated" not in text


def test_a_table_that_is_out_of_date_is_noticed():
    page = ROOT / "docs/results.md"
    changed = page.read_text().replace("10 of 10", "11 of 10")
    assert changed != page.read_text() == update_tables.updated(changed)


def test_every_table_is_on_a_page():
    shown = {name for page in update_tables.pages() for name in update_tables.names(page.read_text())}
    assert shown == set(update_tables.MAKERS)


@pytest.mark.parametrize("name", tables.TABLES)
def test_tables_are_made_of_raw_runs(name):
    text = tables.TABLES[name]()
    rows = [line.count("|") for line in text.splitlines() if line.startswith("|")]
    missing = "No runs of this version are committed" in text or name == "scaling"
    assert len(set(rows)) <= 1 and (len(rows) >= 3 or missing)


def test_every_example_is_in_the_gallery():
    runnable = {path.stem for path in (ROOT / "examples").glob("*.py") if "__main__" in path.read_text()}
    assert runnable <= set(gallery.examples())


def undocumented(owner, name: str) -> list[str]:
    """A class or function without a docstring, and the same for what a class defines itself."""
    value = getattr(owner, name)
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return []  # data have comments, which Sphinx reads
    text = inspect.getdoc(value) or ""
    missing = [name] if not text or text.startswith(f"{name}(") else []  # a dataclass writes its own signature there
    members = [member for member in vars(value) if not member.startswith("_")] if inspect.isclass(value) else []
    for member in members:
        part = inspect.getattr_static(value, member)
        documented = inspect.getdoc(getattr(value, member)) if _is_code(part) else "data"
        missing += [] if documented else [f"{name}.{member}"]
    return missing


def _is_code(part) -> bool:
    return inspect.isfunction(part) or isinstance(part, property | classmethod | staticmethod)


@pytest.mark.parametrize("name", api.public_modules())
def test_every_public_symbol_has_a_docstring(name):
    module = importlib.import_module(name)
    assert module.__doc__ and api.public_names(module)
    assert [missing for symbol in api.public_names(module) for missing in undocumented(module, symbol)] == []


def test_doctests_pass():
    roots = [importlib.import_module(name) for name in ("pyro_options", "pyro_options.models", "pyro_options.guides")]
    names = {found.name for root in roots for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}.")}
    results = [doctest.testmod(importlib.import_module(name)) for name in sorted(names)]
    assert sum(result.failed for result in results) == 0
    assert sum(result.attempted for result in results) >= 10


@pytest.mark.slow
def test_docs_build_without_warnings_and_show_every_public_symbol(tmp_path):
    inventory = pytest.importorskip("sphinx.util.inventory", reason="the extra [docs] builds the pages")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    found = inventory.InventoryFile.loads((tmp_path / "objects.inv").read_bytes(), uri="").data
    shown = {name for kind, names in found.items() if kind.startswith("py:") for name in names}
    for module in api.public_modules():
        names = {f"{module}.{name}" for name in api.public_names(importlib.import_module(module))}
        assert names <= shown, names - shown
