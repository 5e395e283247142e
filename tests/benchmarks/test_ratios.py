"""No ratio of the quick benchmark may be much worse than the committed one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.tiny_runs import BENCHMARKS

MARGIN = 1.6
RAW = ("seconds/", "megabytes/", "threads", "provenance", "processor_seconds")


def quick_ratios(path: Path) -> dict[str, float]:
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--quick", "--threads", "1", "--json", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return {name: value for name, value in json.loads(path.read_text()).items() if not name.startswith(RAW)}


@pytest.mark.benchmark
def test_no_ratio_is_much_worse_than_committed(tmp_path):
    committed = json.loads((BENCHMARKS / "results" / "quick.json").read_text())
    committed = {name: value for name, value in committed.items() if not name.startswith(RAW)}
    best = quick_ratios(tmp_path / "first.json")
    missing = {name for name in committed.keys() - best.keys() if "/dynamax/" not in name and "/jax/" not in name}
    assert not missing

    def slow():
        return {name: (best[name], committed[name]) for name in best if best[name] > MARGIN * committed.get(name, 1e9)}

    if slow():  # a busy machine is given a second chance
        again = quick_ratios(tmp_path / "second.json")
        best = {name: min(value, again[name]) for name, value in best.items()}
    assert not slow()
