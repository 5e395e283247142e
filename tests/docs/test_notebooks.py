"""The notebooks of the gallery are committed with their outputs, and run."""

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs/notebooks").glob("*.ipynb"))


def read(path):
    nbformat = pytest.importorskip("nbformat", reason="the extra [docs] reads notebooks")
    return nbformat.read(path, 4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_two():
    assert len(NOTEBOOKS) == 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_were_run_from_the_top(path):
    cells = code(read(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert all(cell.outputs for cell in cells) and not [one for one in outputs if one.output_type == "error"]
    shown = [output for output in outputs if "text/html" in output.get("data", {})]
    assert len(shown) >= 2 and all("<script" not in output.data["text/html"] for output in shown)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, monkeypatch):
    """Every cell runs in a fresh kernel and shows what kind of thing the committed one does."""
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before, again = read(path), read(path)
    nbclient.NotebookClient(again, timeout=900, kernel_name="python3").execute()
    for old, new in zip(code(before), code(again)):
        kinds = [{kind for one in cell.outputs for kind in one.get("data", {})} for cell in (old, new)]
        assert kinds[0] == kinds[1], old.source
