"""``pyro-options segment``: the option of every step, in the format that the next tool reads."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from pyro_options.errors import InputError

from .command import Reading, parent_of, read_skills


@dataclass(frozen=True, kw_only=True)
class Segment(Reading):
    """Segment demonstrations with skills that were discovered before."""

    EXAMPLES = (
        "pyro-options segment walks more.csv --out segments.csv",
        "pyro-options segment robot lerobot/pusht --out pusht-with-subtasks",
        "pyro-options segment door D4RL/door/human-v2 --minari door/options-v0",
    )

    skills: Annotated[Positional[Path], arg(metavar="SKILLS")]
    """a file of skills, or the folder that discover wrote"""
    source: Annotated[Positional[str], arg(metavar="SOURCE")]
    """demonstrations: a file, a LeRobot folder or a Minari id"""
    out: Path | None = None
    """.csv or .parquet for a row for each segment; for LeRobot data, a folder for a copy with subtask_index"""
    minari: str | None = None
    """id of a new Minari data set with the option of each step in its infos"""
    method: str = "viterbi"
    """viterbi for the most probable path, posterior for the most probable option of each step"""

    def run(self) -> dict[str, Any]:
        skills, data = read_skills(self.skills), self.read(self.source)
        found = skills.segment(data, self.method)
        written = self._write(found, data, skills.names)
        return {
            "episodes": len(found),
            "segments": int(found.flat_starts.sum()),
            "mean_length": round(found.mean_length, 3),
            "nats_per_step": round(found.log_likelihood_per_step, 6),
            "usage": {name: round(float(share), 4) for name, share in zip(skills.names, found.usage())},
            "written": written,
        }

    def _write(self, found: Any, data: Any, names: list[str]) -> list[str]:
        from pyro_options.data import to_minari
        from pyro_options.skills import segments_to_dataframe, write_lerobot_subtasks, write_segments

        written = []
        if self.minari is not None:
            to_minari(data, self.minari, infos={"option": found.options})
            written.append(self.minari)
        if self.out is not None:
            if self.out.suffix == ".csv":
                write_segments(parent_of(self.out), found, names)
            elif self.out.suffix == ".parquet":
                import pyarrow.parquet

                pyarrow.parquet.write_table(segments_to_dataframe(found, names, "pyarrow"), parent_of(self.out))
            elif (Path(self.source) / "meta" / "info.json").is_file():
                write_lerobot_subtasks(self.source, self.out, found, names)
            else:
                raise InputError(f"Expected --out with the ending .csv or .parquet but got {self.out}.")
            written.append(str(self.out))
        return written

    def text(self, result: dict[str, Any]) -> str:
        lines = [f"{100 * share:5.1f} %  {name}" for name, share in result["usage"].items()]
        count = (
            f"{result['segments']} segments in {result['episodes']} episodes, {result['mean_length']:.1f} steps each"
        )
        return "\n".join([*lines, count, *(f"written: {path}" for path in result["written"])])
