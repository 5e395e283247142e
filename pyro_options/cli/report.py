"""``pyro-options report`` and ``describe``: what is in a file of skills, or of demonstrations."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from .command import SKILLS, Reading, parent_of, read_skills


@dataclass(frozen=True, kw_only=True)
class Report(Reading):
    """Write an HTML report of skills; it is one file that loads nothing from the network."""

    EXAMPLES = (
        "pyro-options report walks walks.csv --out report.html",
        "pyro-options report walks walks.csv --other other_walks",
        'pyro-options report skills.safetensors --title "What the mouse does"',
    )

    skills: Annotated[Positional[Path], arg(metavar="SKILLS")]
    """a file of skills, or the folder that discover wrote"""
    source: Annotated[Positional[str | None], arg(metavar="SOURCE")] = None
    """demonstrations to segment and to show step by step"""
    other: Path | None = None
    """skills of another run, to compare with on the same demonstrations"""
    out: Path = Path("report.html")
    """the file to write"""
    title: str = "Skills"
    """of the page"""
    trajectories: int = 8
    """number of episodes to show step by step"""

    def run(self) -> dict[str, Any]:
        from pyro_options.viz import write_report

        skills = read_skills(self.skills)
        data = None if self.source is None else self.read(self.source)
        other = None if self.other is None else read_skills(self.other)
        write_report(
            parent_of(self.out),
            skills,
            data,
            title=self.title,
            other=other,
            run_names=(self.skills.stem, "" if self.other is None else self.other.stem),
            max_trajectories=self.trajectories,
        )
        return {"report": str(self.out), "options": skills.num_options}

    def text(self, result: dict[str, Any]) -> str:
        return f"written: {result['report']}"


@dataclass(frozen=True, kw_only=True)
class Describe(Reading):
    """Describe skills, or demonstrations."""

    EXAMPLES = (
        "pyro-options describe walks",
        "pyro-options describe skills.safetensors more.csv",
        "pyro-options describe more.csv",
    )

    what: Annotated[Positional[str], arg(metavar="WHAT")]
    """a file of skills, the folder that discover wrote, or demonstrations"""
    source: Annotated[Positional[str | None], arg(metavar="SOURCE")] = None
    """demonstrations for the statistics of skills, by default those that they were trained on"""

    def run(self) -> dict[str, Any]:
        path = Path(self.what)
        if path.suffix == ".safetensors" or (path / SKILLS).is_file():
            return self._skills(path)
        data = self.read(self.what)
        lengths = data.lengths
        return {
            "episodes": len(data),
            "steps": data.num_steps,
            "lengths": [int(lengths.min()), int(lengths.max())],
            "state_dim": data.state_dim,
            "state_names": data.state_names,
            "num_actions": data.num_actions,
            "action_names": data.action_names,
            "text": str(data),
        }

    def _skills(self, path: Path) -> dict[str, Any]:
        skills = read_skills(path)
        data = None if self.source is None else self.read(self.source)
        summary = skills.summary if data is None else skills.summarize(data)
        table = skills.describe(data)
        assert summary is not None  # describe() raises without one
        return {
            "options": skills.num_options,
            "names": skills.names,
            "usage": [round(float(share), 4) for share in summary.usage],
            "mean_length": [round(float(length), 3) for length in summary.mean_length],
            "log_likelihood": skills.metadata.get("log_likelihood"),
            "text": f"{skills}\n\n{table}",
        }

    def text(self, result: dict[str, Any]) -> str:
        return result["text"]
