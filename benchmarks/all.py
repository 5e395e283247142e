"""Makes results again that are older than the library, the most valuable first, as many as fit into some hours::

    python benchmarks/all.py --hours 2 --dry-run                            # what would be done
    python benchmarks/all.py --hours 2 --data breakout_expert.npz --processes 2
    python benchmarks/all.py --only benchmarks/results/recovery.json

Each command writes to a folder under ``--work``; when it is done its files replace the committed ones, and the tables
of README and docs are brought up to date. An interrupted command resumes where its script can. ``status.py`` lists the
results.
"""

import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from artifacts import ARTIFACTS, ROOT, Artifact, state

from pyro_options.experiments import source_digest


@dataclass(frozen=True)
class Args:
    """Make stale results again."""

    hours: float = 1.0
    """start nothing that would end later, by the rough costs of ``artifacts.py``"""
    data: Path | None = None
    """npz file with Atari demonstrations; results that need it are left out without"""
    only: tuple[str, ...] = ()
    """results files, by default all that are not fresh"""
    processes: int = 2
    work: Path = Path("out/all")
    dry_run: bool = False
    root: Path = ROOT
    """where results are put"""


def chosen(args: Args) -> list[Artifact]:
    """What to make, in order, as far as the time reaches."""
    left, todo = 60 * args.hours, []
    for one in ARTIFACTS:
        wanted = one.results in args.only if args.only else state(one.results).word != "fresh"
        if not wanted or (one.needs_data and args.data is None):
            continue
        minutes = one.minutes / (args.processes if "{processes}" in one.command else 1)
        if args.only or minutes <= left:
            todo.append(one)
            left -= minutes
    return todo


def command(one: Artifact, folder: Path, args: Args) -> list[str]:
    """The command of an artifact that writes to another folder."""
    out = folder / one.results
    names = {"out": out, "folder": out.parent, "processes": args.processes, "data": args.data and args.data.resolve()}
    return [sys.executable, *(word.format(**names) for word in shlex.split(one.command))]


def make(one: Artifact, args: Args) -> bool:
    """Runs the command and puts its files into place; whether it succeeded."""
    name = Path(one.results).with_suffix("").as_posix().replace("/", "-")
    folder = (args.work / source_digest()[:12] / name).resolve()
    (folder / one.results).parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command(one, folder, args), cwd=ROOT)
    if done.returncode or not (folder / one.results).exists():
        print(f"failed with exit code {done.returncode}: {one.command}", flush=True)
        return False
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        target = args.root / file.relative_to(folder)
        if one.owns(file.relative_to(folder).as_posix()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    return True


def main(args: Args) -> list[str]:
    todo, made = chosen(args), []
    for one in todo:
        print(f"{one.minutes:5.0f} core-minutes  {one.results}", flush=True)
        start = time.perf_counter()
        if not args.dry_run and make(one, args):
            made.append(one.results)
            print(f"made {one.results} in {(time.perf_counter() - start) / 60:.0f} minutes", flush=True)
            if args.root == ROOT:
                subprocess.run([sys.executable, str(ROOT / "docs/_ext/update_tables.py")], check=True)
    print(f"{len(made)} of {len(todo)} made" if not args.dry_run else f"{len(todo)} to make")
    return made


if __name__ == "__main__":
    main(tyro.cli(Args))
