"""An experiment of the paper, declared: what it answers, what it runs, what it shows."""

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
    """Everything :mod:`reproduce` needs to know. Experiments with the same job can share a file, and so runs."""

    title: str
    answers: str  # figure or table of the paper
    differs: str  # from the paper, whatever the preset
    job: Job
    grids: Callable[[Preset], dict[str, Grid]]  # file of runs, within the folder of the preset -> grid
    table: Callable[[list[dict]], str]  # Markdown
    figure: Callable[[list[dict], Path], None]

    def complete(self, preset: Preset, folder: Path) -> bool:
        """Whether all runs are there, so that :meth:`run` would only read."""
        for file, grid in self.grids(preset).items():
            path = folder / file
            if not path.exists() or grid.keys() - {row["name"] for row in read_runs(path)}:
                return False
        return True

    def run(self, preset: Preset, folder: Path, processes: int, progress: bool) -> list[dict]:
        """The rows of all runs; those that the files hold already are read."""
        rows: list[dict] = []
        for file, grid in self.grids(preset).items():
            rows += run_grid(self.job, grid, folder / file, processes, progress)
        return rows
