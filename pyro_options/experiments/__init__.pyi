from .grid import read_runs, run_grid
from .statistics import Band, bootstrap_interval, curve_band, interquartile_mean

__all__ = [
    "Band",
    "bootstrap_interval",
    "curve_band",
    "interquartile_mean",
    "read_runs",
    "run_grid",
]
