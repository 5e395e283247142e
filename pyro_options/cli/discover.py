"""``pyro-options discover``: demonstrations in; skills, a report and segments out."""

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from .command import REPORT, SEGMENTS, SKILLS, Reading

#: episodes from which on some are held out for evaluation by default
HOLD_OUT_FROM = 20


@dataclass(frozen=True, kw_only=True)
class Discover(Reading):
    """Discover skills in demonstrations, and how many there are.

    Writes skills.safetensors, report.html and segments.csv to a folder.
    """

    EXAMPLES = (
        "pyro-options discover walks.csv --out walks",
        "pyro-options discover robot.parquet --out robot --states x y gripper --actions force",
        "pyro-options discover D4RL/door/human-v2 --out door --epochs 50",
    )

    source: Annotated[Positional[str], arg(metavar="SOURCE")]
    """a .csv, .parquet, .npz or robomimic .hdf5 file, the folder of a LeRobot data set, or a Minari id"""
    out: Path = Path("out")
    """folder for the results"""
    held_out: float | None = None
    """share of the episodes to evaluate on, not to train on; by default a tenth of 20 episodes or more"""
    epochs: int | None = None
    """passes over the demonstrations, by default from their number"""
    num_options: int | None = None
    """a fixed number of options; by default it is found"""
    method: str | None = None
    """a named method, such as options-exact (the default), options, ddo or compile"""
    restarts: int | None = None
    """number of starts, of which the best continues"""
    seed: int = 0
    """the same seed gives the same skills"""
    device: str = "auto"
    """auto, cpu or cuda"""
    cuda_graph: bool = False
    """on CUDA, record a training step once for each number of options and replay it"""
    no_trust: bool = False
    """do not measure how far the result can be trusted, which takes about as long as the training"""
    resume: bool = False
    """resume an interrupted run with the same settings"""
    title: str | None = None
    """of the report, by default the name of the source"""

    def run(self) -> dict[str, Any]:
        from pyro_options.discovery import discover
        from pyro_options.errors import DiscoveryWarning

        began, data = time.time(), self.read(self.source)
        self.out.mkdir(parents=True, exist_ok=True)
        held_out = self.held_out
        if held_out is None:
            held_out = 0.1 if len(data) >= HOLD_OUT_FROM else 0.0
        fixed: dict[str, Any] = {} if self.num_options is None else {"num_options": self.num_options}
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", DiscoveryWarning)
            skills = discover(
                data,
                self.method,
                held_out=held_out,
                epochs=self.epochs,
                restarts=self.restarts,
                seed=self.seed,
                device=self.device,
                cuda_graph=self.cuda_graph,
                progress=not self.quiet,
                trust=not self.no_trust,
                checkpoint=self.out / "training.safetensors",
                resume=self.resume,
                **fixed,
            )
        notes = [str(one.message) for one in told if issubclass(one.category, DiscoveryWarning)]
        for one in told:
            if not issubclass(one.category, DiscoveryWarning):
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        used = skills.used()
        files = write_results(self.out, used, data, self.title or Path(self.source).name)
        return {
            "episodes": len(data),
            "steps": data.num_steps,
            "options": used.num_options,
            "names": used.names,
            "log_likelihood": skills.metadata["log_likelihood"],
            "warnings": notes,
            "seconds": round(time.time() - began, 1),
            "files": files,
            "table": used.describe(),
        }

    def text(self, result: dict[str, Any]) -> str:
        files = "\n".join(f"  {path}" for path in result["files"].values())
        return f"{result['table']}\n\n{result['options']} options in {result['seconds']:.0f} s. Written:\n{files}"


def write_results(out: Path, skills: Any, data: Any, title: str) -> dict[str, str]:
    """Writes the skills, the report and the segments; returns their paths by kind."""
    from pyro_options.skills import write_segments
    from pyro_options.viz import write_report

    files = {"skills": out / SKILLS, "report": out / REPORT, "segments": out / SEGMENTS}
    skills.save(files["skills"])
    write_report(files["report"], skills, data, title=title)
    write_segments(files["segments"], skills.segment(data), skills.names)
    return {kind: str(path) for kind, path in files.items()}
