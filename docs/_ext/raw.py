"""Committed raw results: where they lie, and what pages and README take from them."""

import json
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SWEEP = "examples/results/message_sweep.json"
USAGE = "examples/results/message_sweep_usage.json"
PAPER = "examples/results/message_paper.json"
ABLATION = "examples/results/message_ablation.md"
RECOVERY = "benchmarks/results/recovery.json"
DECISIONS = "benchmarks/results/mouse_decisions.json"
BASELINES = "benchmarks/results/baselines.json"
INTEGERS = "benchmarks/results/integers.json"
BREAKOUT = "benchmarks/results/breakout.json"
SCRIPTED = "benchmarks/results/breakout_scripted.json"
SWITCHES = "examples/results/switches_ppo/results.json"
ATARI = {game: f"examples/results/atari_ppo/{game}.json" for game in ("Breakout", "Freeway")}
ATARI_PAGE = "examples/results/atari_ppo/atari_ppo.md"
SKILL_COST = "benchmarks/results/skill_env.json"
EXPERTS = "benchmarks/results/experts.json"
THROUGHPUT = "benchmarks/results/atari_throughput.json"
IMITATION = "benchmarks/results/imitation.json"
LENGTHS = "examples/results/option_length.json"
MIXTURES = "benchmarks/results/mixtures.json"
HARD = "benchmarks/results/hard_options.json"
GUIDES = "benchmarks/results/guides_breakout.json"
GUIDES_FREEWAY = "benchmarks/results/guides_freeway.json"
ESTIMATORS = "benchmarks/results/estimators.json"
SUITE = "benchmarks/results/suite.json"
PARALLEL = "benchmarks/results/parallel.json"
RAM_STEPS = "benchmarks/results/ram_steps.json"
MAPPED = "benchmarks/results/mapped_memory.json"
SPEED = ("benchmarks/results/full.json", "benchmarks/results/quick.json")


def load(path: str) -> dict:
    return json.loads((ROOT / path).read_text())


def solved(runs: Sequence[dict], key: str = "success") -> str:
    return f"{sum(run[key] for run in runs)} of {len(runs)}"


def by_seed(runs: Sequence[dict], key: str, name: str) -> dict[int, dict]:
    """The runs of a method by seed."""
    return {run["seed"]: run for run in runs if run[key] == name}


def ddo_gaps() -> list[float]:
    """How much likelier held-out actions are to DDO than to the exact guide, both told K, for each seed."""
    ddo, exact = (by_seed(load(BASELINES)["runs"], "arm", name) for name in ("ddo", "options-exact"))
    return [ddo[seed]["log_likelihood"] - exact[seed]["log_likelihood"] for seed in sorted(ddo.keys() & exact.keys())]


def compile_np_found() -> list[int]:
    """Known options that CompILE-NP finds, for each seed."""
    return [run["found_options"] for run in by_seed(load(BASELINES)["runs"], "arm", "compile-np").values()]


def breakout_rows(path: str) -> dict[str, list[dict]]:
    """Runs of the Breakout benchmark by row, growth first, in the order of their seeds."""
    runs = sorted(load(path)["runs"], key=lambda run: ("growth" not in run["row"], run["config"].get("num_options", 1)))
    return {run["row"]: list(by_seed(runs, "row", run["row"]).values()) for run in runs}


def switches_pairs() -> list[tuple[dict, dict]]:
    """Runs without skills and with them, by seed."""
    runs = load(SWITCHES)["runs"]
    plain, skilled = ({r["seed"]: r for r in runs if (r["arm"] == "none") == without} for without in (True, False))
    return [(plain[seed], skilled[seed]) for seed in sorted(plain.keys() & skilled.keys())]
