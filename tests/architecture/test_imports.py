"""Importing the library is cheap and brings nothing heavy along."""

import subprocess
import sys
import time

HEAVY = {"gymnasium", "stable_baselines3", "matplotlib", "numba", "jax", "ale_py", "minari"}


def run(code: str) -> tuple[float, str]:
    """Seconds and output of a fresh interpreter."""
    start = time.perf_counter()
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return time.perf_counter() - start, result.stdout


def test_nothing_heavy_is_imported_until_used():
    _, output = run("import sys, pyro_options.discovery, pyro_options.infer; print(*sys.modules)")
    assert HEAVY.isdisjoint(output.split())


def test_import_costs_little_more_than_pyro():
    run("import pyro_options.discovery")  # compiles bytecode
    times = [(run("import pyro")[0], run("import pyro_options.discovery, pyro_options.infer")[0]) for _ in range(3)]
    pyro, ours = (min(column) for column in zip(*times))
    assert ours <= 1.25 * pyro
