"""Results say which source made them."""

import importlib
import json
import subprocess
from pathlib import Path

from pyro_options.experiments import provenance, source_digest

ROOT = Path(__file__).parents[2]


def test_it_names_the_commit_and_the_machine():
    found = provenance()
    done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True)
    if done.returncode == 0 and (ROOT / ".git").exists():
        assert found["commit"] == done.stdout.strip() and found["dirty"] in (True, False)
    assert found["machine"]["cores"] >= 1 and found["versions"]["torch"]
    assert json.loads(json.dumps(found)) == found


def test_the_digest_covers_models_and_guides(tmp_path, monkeypatch):
    module = importlib.import_module("pyro_options.experiments.origins")

    for folder in ("library", "models", "guides"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text("x = 1\n")
    names = dict(zip(module.SOURCES, ("library", "models", "guides")))
    monkeypatch.setattr(module, "_folder", lambda package: tmp_path / names[package])
    digest = source_digest.__wrapped__
    before = digest()
    assert digest() == before
    for folder in ("library", "models", "guides"):
        (tmp_path / folder / "a.py").write_text("x = 2\n")
        after = digest()
        assert after != before
        before = after
    (tmp_path / "guides" / "a.py").write_text('"""A docstring."""\n\nx = 2  # a comment\n')
    assert digest() == before
    # models may also lie inside the library, as in an installed wheel: the digest is the same
    (tmp_path / "library" / "models").mkdir()
    (tmp_path / "library" / "models" / "a.py").write_text("x = 2\n")
    assert digest() == before
