"""``pyro-options convert``: demonstrations from one format to another."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from pyro_options.errors import InputError

from .command import Reading, parent_of


@dataclass(frozen=True, kw_only=True)
class Convert(Reading):
    """Convert demonstrations from one format to another."""

    EXAMPLES = (
        "pyro-options convert demo.hdf5 demo.npz",
        "pyro-options convert walks.csv walks.parquet",
        "pyro-options convert walks.csv walks/demos-v0",
        "pyro-options convert demo.npz demo",
    )

    source: Annotated[Positional[str], arg(metavar="SOURCE")]
    """a file, a LeRobot folder or a Minari id"""
    target: Annotated[Positional[str], arg(metavar="TARGET")]
    """.npz, .csv, .parquet, a new folder (to be mapped into memory), or the id of a new Minari data set"""

    def run(self) -> dict[str, Any]:
        data = self.read(self.source)
        return {"written": write(data, self.target), "episodes": len(data), "steps": data.num_steps}

    def text(self, result: dict[str, Any]) -> str:
        return f"{result['episodes']} episodes, {result['steps']} steps, written: {result['written']}"


def write(data: Any, target: str | Path) -> str:
    """Writes demonstrations in the format that the ending of a name says."""
    from pyro_options.data import to_minari, write_table

    path = Path(target)
    if path.suffix == ".npz":
        data.save(parent_of(path))
    elif path.suffix in (".csv", ".parquet"):
        write_table(parent_of(path), data.unpack())
    elif "-v" in path.name and not path.suffix:
        to_minari(data, str(target))
    elif not path.suffix:
        data.save(parent_of(path))
    else:
        raise InputError(
            f"Expected a name that ends in .npz, .csv or .parquet, a new folder, or a Minari id, but got {target}."
        )
    return str(target)
