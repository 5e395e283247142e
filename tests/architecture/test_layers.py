"""The layers of the library, read off its imports: a package may import those below it, and no others."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_CORE = ("errors", "kernels", "distributions", "growth", "handlers")
_PARTS = (*_CORE, "display", "nn", "options", "segments", "mixtures", "data", "persistence")

#: package -> packages that it may import, itself aside
LAYERS = {
    "errors": (),
    "display": (),
    "kernels": ("errors",),
    "persistence": ("errors",),
    "experiments": ("errors", "persistence"),
    "distributions": ("errors", "kernels"),
    "growth": ("errors", "kernels", "distributions"),
    "handlers": ("errors", "kernels", "distributions", "growth"),
    "nn": ("errors", "kernels"),
    "data": (*_CORE, "display", "nn", "options", "persistence"),  # demonstrations drawn from known options
    "options": (*_CORE, "nn"),
    "segments": (*_CORE, "nn", "options"),
    "mixtures": _CORE,
    "models": tuple(name for name in _PARTS if name != "persistence"),
    "guides": tuple(name for name in _PARTS if name != "persistence"),
    "infer": _PARTS,
    "skills": (*_PARTS, "models", "guides", "infer"),
    "discovery": (*_PARTS, "models", "guides", "infer", "skills"),
    "envs": (*_PARTS, "skills"),
    "rl": (*_PARTS, "envs", "skills"),
    "viz": (*_PARTS, "infer", "skills"),
    "cli": (*_PARTS, "discovery", "envs", "skills", "viz"),
    "": ("cli", "discovery", "skills"),  # the one call and what it returns; __main__ runs the command
}


def package_of(path: Path) -> str:
    """The package, or the one loose module, that a file belongs to."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "pyro_options" else parts
    return "" if parts[0] in ("__init__", "__main__") else parts[0]


def files() -> list[Path]:
    folders = [ROOT / name for name in ("pyro_options", "models", "guides")]
    return sorted(path for folder in folders for suffix in ("*.py", "*.pyi") for path in folder.rglob(suffix))


def imported_packages(source: str, package: str) -> set[str]:
    """Packages of the library that a file imports, anywhere in it.

    :param package: that the file is in, which relative imports stay in unless they climb out of it
    """
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and package == "":
            names = [f"pyro_options.{node.module}"]
        else:
            names = []
        found |= {name.split(".")[1] for name in names if name.startswith("pyro_options.")}
    return found - {"__version__", package}


def violations(source: str, package: str) -> set[str]:
    return imported_packages(source, package) - set(LAYERS[package])


def test_every_package_has_a_layer_and_errors_is_the_only_loose_module():
    assert {package_of(path) for path in files()} == set(LAYERS)
    assert {path.name for path in (ROOT / "pyro_options").glob("*.py")} == {"__init__.py", "__main__.py", "errors.py"}


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_from_layers_below_it_only(path):
    assert not violations(path.read_text(), package_of(path))


def test_the_layers_have_no_cycle():
    for package, below in LAYERS.items():
        assert all(package not in LAYERS[name] for name in below), package
    assert "guides" not in LAYERS["models"] and "models" not in LAYERS["guides"]
    assert all("rl" not in below for below in LAYERS.values())
    assert [name for name, below in LAYERS.items() if "viz" in below] == ["cli"]


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("models", "from pyro_options.skills import Skills"),
        ("models", "from pyro_options.guides.gem import GrowableGEM"),
        ("guides", "import pyro_options.models"),
        ("growth", "def late():\n    from pyro_options.options.path import OptionPath"),
        ("persistence", "from pyro_options.growth import grow"),
        ("skills", "from pyro_options import viz"),
        ("kernels", "from pyro_options.distributions import sticks"),
    ],
)
def test_a_wrong_import_is_noticed(package, line):
    assert violations(line, package)
    assert not violations("import torch\nfrom pyro_options.errors import check\nfrom .other import thing", package)


@pytest.mark.parametrize("package", ["growth", "handlers", "distributions"])
def test_the_core_knows_nothing_of_options_and_actions(package):
    for path in (ROOT / "pyro_options" / package).glob("*.py"):
        text = path.read_text().replace("pyro_options", "")
        assert not re.search(r"\boptions?\b|\bactions?\b", text, re.IGNORECASE), path.name


def modules_behind(statement: str) -> list[str]:
    """Modules of the library that a fresh interpreter has loaded after a statement."""
    code = f"{statement}; import sys; print(*(m for m in sys.modules if m.split('.')[0] == 'pyro_options'))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize(
    "statement",
    [
        "import pyro_options.guides.gem",
        "import pyro_options.models.gem",
        "from pyro_options.guides import GrowableGEM",
        "from pyro_options.models import GEM",
    ],
)
def test_the_growing_core_can_be_carried_out(statement):
    """Growable sticks and their prior bring few modules along, none of which is about options or skills."""
    loaded = modules_behind(statement)
    assert 3 <= len(loaded) <= 15
    packages = {name.split(".")[1] for name in loaded if "." in name}
    assert packages <= {"errors", "kernels", "distributions", "growth", "guides", "models"}


HEAVY = {"gymnasium", "stable_baselines3", "matplotlib", "numba", "jax", "ale_py", "minari", "PIL"}


def all_modules(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_importing_the_library_brings_little_beyond_pyro():
    loaded = all_modules("import pyro_options.discovery.run, pyro_options.infer.trainer")
    assert HEAVY.isdisjoint(loaded)
    assert len(loaded - all_modules("import pyro, pyro.infer, pyro.optim")) <= 250


def test_every_autograd_function_keeps_the_provenance_of_draws():
    """TraceGraph_ELBO's gradients are wrong, without an error, below a function that drops it."""
    bare = []
    for path in files():
        classes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]
        named = {one.name: {ast.unparse(base).split(".")[-1] for base in one.bases} for one in classes}
        bare += [name for name, bases in named.items() if "Function" in bases]
    assert bare == ["TrackedFunction"], "derive from TrackedFunction"
