"""The page about the layout, its picture and the code agree."""

import importlib
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "docs/_ext"), str(ROOT / "tests/architecture")]

import api  # noqa: E402
import layers  # noqa: E402
from test_layers import LAYERS  # noqa: E402

PAGE = (ROOT / "docs/layout.md").read_text()
SVG = layers.PICTURE.read_text()


def test_every_folder_and_file_that_the_page_names_exists():
    named = set(re.findall(r"`([\w.]+/[\w./]*)`", PAGE))
    assert {"guides/", "models/", "pyro_options/discovery/registry.py", "pyro_options/kernels/", "examples/"} <= named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_registry_that_the_page_names_is_where_it_says():
    found = re.findall(r"`([\w.]+)`(?: \(or `(\w+)`\)| and `(\w+)`)? of `(pyro_options/[\w/]+)\.py`", PAGE)
    assert len(found) >= 7
    for *names, path in found:
        module = importlib.import_module(path.replace("/", "."))
        for name in filter(None, names):
            owner, _, method = name.partition(".")
            assert hasattr(module, owner) and (not method or hasattr(getattr(module, owner), method)), name


def test_the_table_answers_ten_questions_with_one_folder_each():
    rows = re.findall(r"^\| an? ([^|]+?) \| ([^|]+) \|", PAGE, re.MULTILINE)
    assert len(rows) == 10
    assert all(re.fullmatch(r"`[\w/]+/`", folder) for _, folder in rows), rows


def test_every_package_is_on_the_page_in_the_picture_and_in_the_reference():
    documented = {name.removeprefix("pyro_options.").split(".")[0] for name in api.public_modules()}
    for package in LAYERS:
        name = package or "pyro_options"
        assert f"`{name}`" in PAGE and f">{name}</text>" in SVG, name
        assert not package or package in documented, name


def test_the_picture_is_up_to_date():
    assert layers.picture() == SVG, "run: python docs/_ext/layers.py"


def test_the_picture_puts_a_package_above_what_it_imports():
    place = layers.positions()
    assert set(place) == set(LAYERS)
    for package, below in LAYERS.items():
        assert all(place[name] < place[package] for name in below), package
