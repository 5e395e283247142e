from .grid import read_runs, run_grid
from .origins import code_of, provenance, source_digest, unfinished_results, write_results
from .statistics import Band, bootstrap_interval, curve_band, interquartile_mean

__all__ = [
    "Band",
    "bootstrap_interval",
    "code_of",
    "curve_band",
    "interquartile_mean",
    "provenance",
    "read_runs",
    "run_grid",
    "source_digest",
    "unfinished_results",
    "write_results",
]
