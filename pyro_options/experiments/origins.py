"""Where a result comes from: the command, the commit, the source that ran, package versions and the machine."""

import ast
import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyro_options.persistence.storage import write_json

PACKAGES = ("pyro-options", "torch", "pyro-ppl", "numpy", "gymnasium", "ale-py", "stable-baselines3")

#: the packages whose source a digest covers; ``models`` and ``guides`` may lie outside the library's folder
SOURCES = ("pyro_options", "pyro_options.models", "pyro_options.guides")


def provenance() -> dict[str, Any]:
    """What to store beside a result, as JSON values.

    ``command``, ``commit`` and ``dirty`` (``None`` outside a git checkout), ``source`` (:func:`source_digest`),
    ``python``, ``versions`` of packages, and ``machine``.
    """
    commit, dirty = _checkout()
    return {
        "command": _command(),
        "commit": commit,
        "dirty": dirty,
        "source": source_digest(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "machine": {"cores": os.cpu_count(), "processor": _processor(), "system": platform.system()},
    }


def write_results(path: str | os.PathLike, results: Mapping[str, Any]) -> None:
    """Writes results as JSON, with :func:`provenance` and the ``processor_seconds`` of this process so far."""
    about = {"provenance": provenance(), "processor_seconds": time.process_time()}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_json(Path(path), about | dict(results), indent=1)


def unfinished_results(path: str | os.PathLike) -> dict[str, Any]:
    """The results in a file of :func:`write_results`, to go on with; empty if there is none or other code made them."""
    path = Path(path)
    found = json.loads(path.read_text()) if path.exists() else {}
    same = found.get("provenance", {}).get("source") == source_digest()
    return found if same else {}


@cache
def source_digest() -> str:
    """A SHA-256 digest of the library's code, models and guides included, as it was at the first call.

    Comments, docstrings and layout do not count. It depends on Python's minor version, which is part of
    :func:`provenance`.
    """
    files = {}  # by import path: the same in a checkout and in an installed wheel
    for package in SOURCES:
        folder = _folder(package)
        for file in folder.rglob("*.py"):
            files["/".join([*package.split("."), *file.relative_to(folder).parts])] = file
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        digest.update(name.encode() + b"\0" + code_of(file.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()


def code_of(source: str) -> str:
    """Python source without comments, docstrings and layout."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


@cache
def _checkout() -> tuple[str | None, bool | None]:
    """Commit of the checkout that the library lies in, and whether tracked files differ from it."""
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return None, None
    return commit, bool(_git("status", "--porcelain", "--untracked-files=no"))


def _git(*arguments: str) -> str | None:
    folder = _folder("pyro_options").parent
    if not (folder / ".git").exists():  # installed somewhere inside another project's checkout
        return None
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _command() -> str:
    script, *arguments = sys.argv
    script = Path(os.path.relpath(script)).as_posix() if script else ""
    # absolute paths mean nothing on other machines
    arguments = [Path(x).name if os.path.isabs(x) else x for x in arguments]
    return shlex.join(["python", script, *arguments])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
