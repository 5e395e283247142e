"""Every committed result: the command that makes it, what it costs, and whether its code has changed since."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from closure import unchanged_since

from pyro_options.experiments import source_digest

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(?:examples|benchmarks)/results/[\w./-]*\w")


@dataclass(frozen=True)
class Artifact:
    """A result that pages show.

    :param results: its JSON file, relative to the root; figures and tables lie beside it, or have its name
    :param command: makes it; ``{out}`` is the file, ``{folder}`` the folder that it lies in, ``{processes}`` how many
        runs to do at a time, ``{data}`` the file with Atari demonstrations
    :param minutes: of one core, roughly
    :param also: other files that the command writes, with names of their own
    """

    results: str
    command: str
    minutes: float
    also: tuple[str, ...] = ()

    @property
    def script(self) -> Path:
        """What the command runs."""
        return ROOT / self.command.split()[0]

    @property
    def needs_data(self) -> bool:
        """Whether it needs a file with demonstrations that is not part of the repository."""
        return "{data}" in self.command

    def owns(self, path: str) -> bool:
        """Whether a file was made by the same command."""
        mine, other = Path(self.results), Path(path)
        alone = mine.parent.name not in ("results", "atari_ppo")  # a folder of its own
        return (
            other == mine or path in self.also or (other.parent == mine.parent and (alone or other.stem == mine.stem))
        )


#: the most valuable first
ARTIFACTS = (
    Artifact("examples/results/toy_message/results.json", "examples/toy_message.py --out {folder}", 2),
    Artifact("benchmarks/results/recovery.json", "benchmarks/recovery.py --processes {processes} --out {out}", 30),
    Artifact(
        "examples/results/message_sweep.json",
        "examples/message_sweep.py --processes {processes} --out {folder}",
        80,
    ),
    Artifact("benchmarks/results/suite.json", "benchmarks/suite.py --processes {processes} --out {out}", 900),
    Artifact(
        "benchmarks/results/guides_breakout.json",
        "benchmarks/guides.py --data {data} --processes {processes} --out {out}",
        90,
    ),
    Artifact(
        "benchmarks/results/guides_freeway.json",
        "benchmarks/guides.py --game Freeway --processes {processes} --out {out}",
        90,
    ),
    Artifact(
        "benchmarks/results/estimators.json",
        "benchmarks/estimators.py --problems small breakout --data {data} --processes {processes} --out {out}"
        " --figure {folder}/estimators.png --bound-figure {folder}/estimators_bounds.png",
        12,
        ("benchmarks/results/estimators_bounds.png",),
    ),
    Artifact(
        "benchmarks/results/hard_options.json",
        "benchmarks/hard_options.py --processes {processes} --out {out}",
        30,
    ),
    Artifact("benchmarks/results/from_labels.json", "benchmarks/from_labels.py --processes {processes} --out {out}", 5),
    Artifact("benchmarks/results/baselines.json", "benchmarks/baselines.py --processes {processes} --out {out}", 15),
    Artifact("examples/results/mouse_decisions/results.json", "examples/mouse_decisions.py --out {folder}", 5),
    Artifact("benchmarks/results/frame_memory.json", "benchmarks/frame_memory.py --out {out}", 1),
    Artifact("benchmarks/results/integers.json", "benchmarks/integers.py --processes {processes} --out {out}", 10),
    Artifact("benchmarks/results/mixtures.json", "benchmarks/mixtures.py --json {out}", 10),
    Artifact(
        "benchmarks/results/growing_models.json",
        "benchmarks/growing_models.py --models infinite_hmm hdp_topics regressions poissons gaussians --processes"
        " {processes} --out {out}",
        10,
    ),
    Artifact("benchmarks/results/option_lengths.json", "benchmarks/option_lengths.py --out {out}", 10),
    Artifact(
        "benchmarks/results/sticky_options.json",
        "benchmarks/growing_models.py --models sticky_options --processes {processes} --out {out}",
        15,
    ),
    Artifact(
        "benchmarks/results/breakout.json",
        "benchmarks/breakout.py --data {data} --processes {processes} --out {out}",
        60,
    ),
    Artifact(
        "benchmarks/results/breakout_scripted.json",
        "benchmarks/breakout.py --processes {processes} --out {out}",
        60,
    ),
    Artifact(
        "examples/results/switches_ppo/results.json",
        "examples/switches_ppo.py --processes {processes} --out {folder}",
        15,
    ),
    Artifact(
        "examples/results/message_sweep_usage.json",
        "examples/message_sweep.py --name message_sweep_usage --guides paper --num-messages 2 4 6 8 --variants usage"
        " --processes {processes} --out {folder}",
        60,
    ),
    Artifact(
        "examples/results/message_paper.json",
        "examples/message_sweep.py --name message_paper --guides paper --variants paper --processes {processes}"
        " --out {folder}",
        60,
    ),
    Artifact(
        "examples/results/message_ablation.json",
        "examples/message_sweep.py --name message_ablation --guides paper --num-messages 8 --seeds 0 1 --variants"
        " random-births equal-rates independent-heads trajectory-entropy no-entropy evidence --processes {processes}"
        " --out {folder}",
        20,
    ),
    Artifact("benchmarks/results/full.json", "benchmarks/run.py --json {out}", 20, ("benchmarks/results/scaling.png",)),
    Artifact("benchmarks/results/quick.json", "benchmarks/run.py --quick --threads 1 --json {out}", 2),
    Artifact("benchmarks/results/kernels.json", "benchmarks/kernels.py --json {out}", 15),
    Artifact("benchmarks/results/parallel.json", "benchmarks/parallel.py --out {out}", 1),
    Artifact("benchmarks/results/ram_steps.json", "benchmarks/ram_steps.py --out {out}", 2),
    Artifact("benchmarks/results/mapped_memory.json", "benchmarks/mapped_memory.py --out {out}", 10),
    Artifact("benchmarks/results/ragged.json", "benchmarks/ragged.py --out {out}", 5),
    Artifact("benchmarks/results/kills.json", "benchmarks/kills.py --runs 25 --out {out}", 30),
    Artifact("benchmarks/results/soak.json", "benchmarks/soak.py --out {out}", 15),
    Artifact("benchmarks/results/mutations.json", "benchmarks/mutations.py --out {out}", 20),
    Artifact(
        "examples/results/option_length.json",
        "examples/option_length.py --data {data} --epochs 40 --out {folder}",
        20,
    ),
    Artifact("benchmarks/results/skill_env.json", "benchmarks/skill_env.py --out {out}", 3),
    Artifact("benchmarks/results/experts.json", "benchmarks/experts.py --kinds expert network --out {out}", 20),
    Artifact("benchmarks/results/atari_throughput.json", "benchmarks/atari_throughput.py --out {out}", 3),
    Artifact("benchmarks/results/imitation.json", "benchmarks/imitation.py --processes {processes} --out {out}", 20),
    Artifact("examples/results/compare/compare.json", "examples/compare.py --processes {processes} --out {folder}", 60),
    Artifact("examples/results/dp_mixture/results.json", "examples/dp_mixture.py --out {folder}", 1),
    Artifact("examples/results/count_mixture/results.json", "examples/count_mixture.py --out {folder}", 1),
    Artifact("examples/results/infinite_hmm/results.json", "examples/infinite_hmm.py --out {folder}", 1),
    Artifact("examples/results/hdp_topics/results.json", "examples/hdp_topics.py --out {folder}", 1),
    Artifact("examples/results/regressions/results.json", "examples/regressions.py --out {folder}", 1),
    Artifact("examples/results/sticky_options/results.json", "examples/sticky_options.py --out {folder}", 2),
    Artifact("examples/results/cued_options/results.json", "examples/cued_options.py --out {folder}", 2),
    Artifact(
        "examples/results/stick_breaking_autoencoder/results.json",
        "examples/stick_breaking_autoencoder.py --out {folder}",
        5,
    ),
    Artifact(
        "examples/results/atari_discover/results.json",
        "examples/atari_discover.py --expert scripted --game Breakout --out {folder}",
        15,
    ),
    *(
        Artifact(
            f"examples/results/atari_ppo/{game}.json",
            f"examples/atari_ppo.py --games {game} --processes {{processes}} --out {{folder}}",
            400,
            ("examples/results/atari_ppo/atari_ppo.png", "examples/results/atari_ppo/atari_ppo.md"),
        )
        for game in ("Breakout", "Freeway")
    ),
)


def artifact_of(path: str) -> Artifact | None:
    """The artifact that a file belongs to."""
    exact = [one for one in ARTIFACTS if one.results == path]
    return next(iter(exact), None) or next((one for one in ARTIFACTS if one.owns(path)), None)


def shown() -> dict[str, list[str]]:
    """Every results file that README and docs link to -> the pages that do."""
    found: dict[str, list[str]] = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for path in dict.fromkeys(_LINK.findall(page.read_text())):
            found.setdefault(path, []).append(page.relative_to(ROOT).as_posix())
    return found


@dataclass(frozen=True)
class State:
    """``fresh``, ``stale`` (its code has changed since) or ``missing`` (no file, or one without provenance)."""

    word: str
    commits: tuple[str, ...] = ()


def state(path: str | Path) -> State:
    """The state of a JSON file of results; relative paths are relative to the root.

    It is fresh if the library is the one that made it, or if what its script imports is as it was at the commit that
    made it, comments and docstrings aside.
    """
    path = ROOT / path
    if not path.exists():
        return State("missing")
    origins = _origins(json.loads(path.read_text()))
    commits = tuple(dict.fromkeys(str(one["commit"])[:9] for one in origins if one.get("commit")))
    if not origins or not all(one.get("source") for one in origins):
        return State("missing", commits)
    owner = artifact_of(path.relative_to(ROOT).as_posix()) if path.is_relative_to(ROOT) else None
    fresh = all(_same_code(one, owner) for one in origins)
    return State("fresh" if fresh else "stale", commits)


def _same_code(origin: dict, owner: Artifact | None) -> bool:
    """Whether what made a result would run the same code of the library today."""
    if origin["source"] == source_digest():
        return True
    known = owner is not None and origin.get("commit") is not None and not origin.get("dirty")
    return known and unchanged_since(origin["commit"], owner.script)


def _origins(record: Any) -> list[dict]:
    """What produced the rows of a file: one entry for a single result, several for a grid of runs."""
    if not isinstance(record, dict):
        return []
    if "provenance" in record:
        return [record["provenance"]]
    if "origins" not in record:
        return []
    return [record["origins"][index] for index in sorted({run["origin"] for run in record["runs"]})]
