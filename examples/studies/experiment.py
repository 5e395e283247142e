"""Declaration of an experiment of the paper: its grid of runs, table and figure."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyro_options.experiments import read_runs, run_grid
from pyro_options.experiments.grid import Job

Preset = Literal["smoke", "quick", "full", "paper"]
Grid = dict[str, dict]


@dataclass(frozen=True)
class Experiment:
    """An experiment for :mod:`reproduce`. Experiments with the same job can share a file and its runs."""

    title: str
    answers: str  # corresponding figure or table of the paper
    differs: str  # differences from the paper with any preset
    job: Job
    grids: Callable[[Preset], dict[str, Grid]]  # file of runs, relative to the preset's folder -> grid
    table: Callable[[list[dict]], str]  # Markdown
    figure: Callable[[list[dict], Path], None]

    def complete(self, preset: Preset, folder: Path) -> bool:
        """Whether the files hold all runs, so that :meth:`run` only reads them."""
        for file, grid in self.grids(preset).items():
            path = folder / file
            if not path.exists() or grid.keys() - {row["name"] for row in read_runs(path)}:
                return False
        return True

    def run(self, preset: Preset, folder: Path, processes: int, progress: bool) -> list[dict]:
        """The rows of all runs; runs that are in the files already are not repeated."""
        rows: list[dict] = []
        for file, grid in self.grids(preset).items():
            rows += run_grid(self.job, grid, folder / file, processes, progress)
        return rows
