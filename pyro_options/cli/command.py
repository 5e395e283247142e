"""What all commands have in common: settings, reading demonstrations, and printing results."""

import json
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pyro_options.errors import FileError, check

if TYPE_CHECKING:
    from pyro_options.data import Trajectories
    from pyro_options.skills import Skills


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """Settings of every command."""

    EXAMPLES: ClassVar[tuple[str, ...]] = ()  # that its help shows

    json: bool = False
    """print the result as one JSON object; progress and warnings go to the error stream"""
    quiet: bool = False
    """no progress bars and no messages"""
    debug: bool = False
    """show the traceback of an error"""

    @abstractmethod
    def run(self) -> dict[str, Any]:
        """Does it; returns the result as JSON values."""

    @abstractmethod
    def text(self, result: dict[str, Any]) -> str:
        """The result for people."""

    def say(self, message: str) -> None:
        """A message on the error stream."""
        if not self.quiet:
            print(message, file=sys.stderr, flush=True)

    def show(self, result: dict[str, Any]) -> None:
        """Prints a result."""
        if self.json:
            print(json.dumps(result, indent=2, ensure_ascii=False, default=str))
        elif not self.quiet:
            print(self.text(result))


@dataclass(frozen=True, kw_only=True)
class Reading(Command):
    """Settings of commands that read demonstrations."""

    episode: str | None = None
    """CSV, Parquet: the column that tells episodes apart; found by its name by default"""
    actions: tuple[str, ...] = ()
    """CSV, Parquet, LeRobot: the columns of actions; by default those whose names begin with action"""
    states: tuple[str, ...] = ()
    """CSV, Parquet, LeRobot, robomimic: the columns or observations that make up the state; by default all others"""
    step: str | None = None
    """CSV, Parquet: the column that orders the steps of an episode"""
    num_actions: int | None = None
    """number of discrete actions, by default the largest plus one"""

    def read(self, source: str) -> "Trajectories":
        """Demonstrations from a file, a folder or a Minari id."""
        from pyro_options.data import from_robomimic, open_trajectories
        from pyro_options.data.sources import reader_of

        given: dict[str, Any] = {"episode": self.episode, "step": self.step, "num_actions": self.num_actions}
        keys = "keys" if reader_of(source) is from_robomimic else "states"
        given |= {"actions": list(self.actions) or None, keys: list(self.states) or None}
        data = open_trajectories(source, **{name: value for name, value in given.items() if value is not None})
        self.say(f"{source}: {data}")
        if data.state_names is not None and len(data.state_names) <= 40:
            self.say(f"states: {', '.join(data.state_names)}")
        return data


def read_skills(path: Path) -> "Skills":
    """Skills from a file, or from the folder that ``discover`` wrote."""
    from pyro_options.skills import Skills

    path = path / SKILLS if path.is_dir() else path
    check(path.is_file(), "a file of skills, or the folder that discover wrote,", str(path), "", FileError)
    return Skills.load(path)


#: names of the files that ``discover`` writes
SKILLS, REPORT, SEGMENTS = "skills.safetensors", "report.html", "segments.csv"


def parent_of(path: Path) -> Path:
    """The same path, after its folder was made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
