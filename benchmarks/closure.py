"""The files of the library that a script depends on, read off its imports, and whether their code has changed."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pyro_options.experiments import code_of

ROOT = Path(__file__).parents[1]

#: import path -> folder, the longest first
FOLDERS = {
    name: ROOT / folder for name, folder in (("pyro_options.models", "models"), ("pyro_options.guides", "guides"))
}
FOLDERS["pyro_options"] = ROOT / "pyro_options"

#: what a script may run that its imports do not show; it is then taken to depend on the whole library
HIDDEN = ("__import__", "import_module", "subprocess", "torchrun")

#: picks the compiled kernels by name
KERNELS = ROOT / "pyro_options" / "kernels"


def _file(module: str) -> Path | None:
    """The file of a module or package of the library."""
    for name, folder in FOLDERS.items():
        if module == name or module.startswith(f"{name}."):
            path = folder.joinpath(*module.removeprefix(name).split(".")[1:])
            found = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
            return found if found.exists() else None
    return None


def _base(node: ast.ImportFrom, package: str) -> str:
    """The absolute path of the module that is imported from."""
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


@cache
def _exports(package: str) -> dict[str, str]:
    """Public name -> module of a package that loads its names on first use."""
    file = _file(package)
    stub = None if file is None else file.with_suffix(".pyi")
    if stub is None or file.name != "__init__.py" or not stub.exists():
        return {}
    nodes = (node for node in ast.walk(ast.parse(stub.read_text())) if isinstance(node, ast.ImportFrom))
    found = (
        (alias.asname or alias.name, _provider(_base(node, package), alias.name))
        for node in nodes
        for alias in node.names
    )
    return dict(found)


def _provider(module: str, name: str) -> str:
    """The module that defines a name which is imported from another one."""
    if _file(f"{module}.{name}") is not None:
        return f"{module}.{name}"
    return _exports(module).get(name, module)


def _imported(source: str, package: str) -> Iterator[str]:
    """Modules that a file imports, anywhere in it; all that a package provides if it is imported as a whole."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [_provider(_base(node, package), alias.name) for alias in node.names]
        else:
            continue
        for name in names:
            yield name
            yield from _exports(name).values()


def _module_of(file: Path) -> str:
    for name, folder in FOLDERS.items():
        if file.is_relative_to(folder):
            parts = file.relative_to(folder).with_suffix("").parts
            return ".".join([name, *(part for part in parts if part != "__init__")])
    return file.stem


def _neighbours(file: Path) -> set[Path]:
    """The files that one file imports: of the library, or beside a script."""
    module = _module_of(file)
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    found = {KERNELS / "registry.py": set(KERNELS.glob("*.py"))}.get(file, set())
    for name in _imported(file.read_text(), package):
        parts = name.split(".")  # a module runs the packages that it lies in, too
        found |= {_file(".".join(parts[: i + 1])) for i in range(len(parts))} - {None}
        if package.partition(".")[0] != "pyro_options":
            beside = (file.parent / f"{'/'.join(parts)}{end}" for end in (".py", "/__init__.py"))
            found |= {path for path in beside if path.exists()}
    return found


@cache
def library_files(script: Path) -> frozenset[Path]:
    """The files of the library that a script depends on; all of them if it may run more than it imports."""
    seen, todo = set(), [script.resolve()]
    while todo:
        file = todo.pop()
        seen.add(file)
        inside = any(file.is_relative_to(folder) for folder in FOLDERS.values())
        if not inside and any(word in file.read_text() for word in HIDDEN):
            return frozenset(path for folder in FOLDERS.values() for path in folder.rglob("*.py"))
        todo += _neighbours(file) - seen - set(todo)
    return frozenset(path for path in seen if any(path.is_relative_to(folder) for folder in FOLDERS.values()))


def _git(*arguments: str) -> str | None:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


@cache
def _changed_since(commit: str) -> frozenset[Path] | None:
    """Files whose text differs from that at a commit; ``None`` if the commit is not known here."""
    listed = _git("diff", "--name-only", commit)
    return None if listed is None else frozenset(ROOT / line for line in listed.splitlines())


@cache
def unchanged_since(commit: str, script: Path) -> bool:
    """Whether the code that a script depends on in the library is that of a commit, comments and docstrings aside."""
    changed = _changed_since(commit)
    if changed is None:
        return False
    for file in library_files(script) & changed:
        before = _git("show", f"{commit}:{file.relative_to(ROOT).as_posix()}")
        if before is None or code_of(before) != code_of(file.read_text()):
            return False
    return True
