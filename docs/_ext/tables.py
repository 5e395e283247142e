"""Tables made of committed raw results, so that no page holds a number that somebody typed.

The pages include them from ``docs/_generated``. The README cannot include anything: its table lies between two marks
and is brought up to date by::

    python docs/_ext/tables.py
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean, median

from pages import write_pages

from pyro_options.rl import interquartile_mean

ROOT = Path(__file__).parents[2]
SWEEP = "examples/results/message_sweep.json"
USAGE = "examples/results/message_sweep_usage.json"
RECOVERY = "benchmarks/results/recovery.json"
BASELINES = "benchmarks/results/baselines.json"
INTEGERS = "benchmarks/results/integers.json"
BREAKOUT = "benchmarks/results/breakout.json"
SCRIPTED = "benchmarks/results/breakout_scripted.json"
SWITCHES = "examples/results/switches_ppo/results.json"
ATARI = {game: f"examples/results/atari_ppo/{game}.json" for game in ("Breakout", "Freeway")}
LENGTHS = "examples/results/option_length.json"
MIXTURES = "benchmarks/results/mixtures.json"
SPEED = ("benchmarks/results/full.json", "benchmarks/results/quick.json")

_MARKS = "<!-- results: python docs/_ext/tables.py -->\n", "<!-- end of results -->\n"


def load(path: str) -> dict:
    return json.loads((ROOT / path).read_text())


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def _span(values: Iterable[float], form: str = "g") -> str:
    given = list(values)
    low, high = f"{min(given):{form}}", f"{max(given):{form}}"
    return low if low == high else f"{low} to {high}"


def _solved(runs: Sequence[dict], key: str = "success") -> str:
    return f"{sum(run[key] for run in runs)} of {len(runs)}"


def message_task() -> str:
    """Every guide of the sweep, over all vocabulary sizes."""
    rows = []
    runs = load(SWEEP)["runs"]
    for guide in dict.fromkeys(run["guide"] for run in runs):
        mine = [run for run in runs if run["guide"] == guide]
        seconds = [run["processor_seconds"] for run in mine]
        used = sum(run["used_options"] == run["num_messages"] for run in mine)
        beyond = max(run["num_options"] - run["num_messages"] for run in mine)
        cells = f"`{guide}`", _solved(mine), f"{used} of {len(mine)}", beyond
        rows.append([*cells, f"{median(seconds):.0f}, {max(seconds):.0f}"])
    header = "guide", "success", "used options = messages", "most K beyond the messages"
    return markdown([*header, "processor seconds, median and most"], rows)


def paper_rule() -> str:
    """The relaxed guide with the paper's rule, by vocabulary size."""
    runs, rows = load(USAGE)["runs"], []
    for size in sorted({run["num_messages"] for run in runs}):
        mine = [run for run in runs if run["num_messages"] == size]
        rows.append([size, _solved(mine), _span(run["num_options"] for run in mine)])
    return markdown(["messages", "success", "K"], rows)


def recovery() -> str:
    runs, rows = load(RECOVERY)["runs"], []
    for kind in dict.fromkeys(run["kind"] for run in runs):
        mine = [run for run in runs if run["kind"] == kind]
        accuracy = [run["accuracy"] for run in mine]
        rows.append([kind, _solved(mine, "passed"), f"{median(accuracy):.3f}", f"{min(accuracy):.3f}"])
    return markdown(
        ["actions", "five options in use and accuracy ≥ 0.95", "median accuracy on held-out episodes", "least"], rows
    )


def _of(runs: Sequence[dict], key: str, name: str) -> dict[int, dict]:
    """The runs of a method by seed."""
    return {run["seed"]: run for run in runs if run[key] == name}


def _gaps() -> list[float]:
    """How much likelier held-out actions are to DDO than to the exact guide, both told K, for each seed."""
    ddo, exact = (_of(load(BASELINES)["runs"], "arm", name) for name in ("ddo", "options-exact"))
    return [ddo[seed]["log_likelihood"] - exact[seed]["log_likelihood"] for seed in sorted(ddo.keys() & exact.keys())]


def _found() -> list[int]:
    """Known options that CompILE-NP finds, for each seed."""
    return [run["found_options"] for run in _of(load(BASELINES)["runs"], "arm", "compile-np").values()]


def baselines() -> str:
    """Known options: DDO, the exact guide and nonparametric CompILE."""
    runs, rows = load(BASELINES)["runs"], []
    for arm in dict.fromkeys(run["arm"] for run in runs):
        mine = list(_of(runs, "arm", arm).values())
        accuracy, found = [run["accuracy"] for run in mine], [run["found_options"] for run in mine]
        cells = (
            f"{median(run['log_likelihood'] for run in mine):.4f}",
            f"{median(accuracy):.3f}",
            f"{min(accuracy):.3f}",
        )
        four = f"{sum(n >= 4 for n in found)} of {len(found)}"
        seconds = _span((run["processor_seconds"] for run in mine), ".0f")
        rows.append([f"`{arm}`", *cells, four, _span(run["num_options"] for run in mine), seconds])
    header = "held-out nats per step, median", "steps right, median", "least", "at least 4 of 5 options found", "K"
    return markdown(["method", *header, "processor seconds"], rows)


def integers() -> str:
    """CompILE's integer sequences, by the seed that does worst as well."""
    runs, rows = load(INTEGERS)["runs"], []
    for name in dict.fromkeys(run["method"] for run in runs):
        mine = list(_of(runs, "method", name).values())
        cells: list[str] = []
        for key in ("boundary_accuracy", "boundary_f1", "reconstruction", "whole_sequences"):
            values = [run[key] for run in mine]
            cells.append(f"{median(values):.3f} ({min(values):.3f})")
        rows.append([f"`{name}`", len(mine), *cells, _span(run["used_options"] for run in mine)])
    header = "boundaries found", "boundary F1", "symbols reconstructed", "whole sequences right", "options in use"
    return markdown(["method", "seeds", *header], rows)


def _rows(path: str) -> dict[str, list[dict]]:
    """Runs of the Breakout benchmark by row, growth first, in the order of their seeds."""
    runs = sorted(load(path)["runs"], key=lambda run: ("growth" not in run["row"], run["config"].get("num_options", 1)))
    return {run["row"]: list(_of(runs, "row", run["row"]).values()) for run in runs}


def fixed_and_grown(path: str) -> str:
    """Held-out likelihood of growth and of fixed numbers of options, on average and by seed."""
    rows = []
    for name, mine in _rows(path).items():
        values = [run["exact_log_likelihood"] for run in mine]
        spans = (_span(run[key] for run in mine) for key in ("num_options", "used_options"))
        length = f"{mean(run['mean_segment_length'] for run in mine):.1f}"
        others = length, f"{max(run['processor_seconds'] for run in mine):.0f}"
        bold = "**" if "growth" in name else ""
        score, each = f"{mean(values):.3f}", ", ".join(f"{value:.3f}" for value in values)
        rows.append([f"{bold}{name}{bold}", score if len(mine) == 1 else f"{score} ({each})", *spans, *others])
    header = "held-out nats per step", "K", "in use", "steps until another option", "processor seconds"
    return markdown(["options", *header], rows)


def _switches() -> list[tuple[dict, dict]]:
    """Runs without skills and with them, by seed."""
    runs = load(SWITCHES)["runs"]
    plain, skilled = ({r["seed"]: r for r in runs if (r["arm"] == "none") == without} for without in (True, False))
    return [(plain[seed], skilled[seed]) for seed in sorted(plain.keys() & skilled.keys())]


def switches() -> str:
    rows = []
    for plain, skilled in _switches():
        total = skilled["frames"] + skilled["demonstration_frames"]
        cells = skilled["seed"], f"{plain['frames']:,}", f"{skilled['frames']:,}", skilled["num_options"]
        rows.append([*cells, f"{skilled['frames'] / plain['frames']:.2f}", f"{total / plain['frames']:.2f}"])
    header = "seed", "plain actions", "with skills", "options found", "ratio", "ratio with the demonstrations' frames"
    return markdown(header, rows)


def option_length() -> str:
    rows = []
    for run in load(LENGTHS)["runs"]:
        likelihood, length = f"{run['exact_log_likelihood']:.3f}", f"{run['mean_segment_length']:.1f}"
        rows.append([f"{run['termination_cost']:g}", likelihood, length, run["used_options"]])
    return markdown(["cost", "held-out nats per step", "steps until another option", "options in use"], rows)


def mixtures() -> str:
    """Growing mixtures beside scikit-learn's with a fixed truncation."""
    if not (ROOT / MIXTURES).exists():
        return "*No runs of this version are committed.*\n"
    runs, rows = load(MIXTURES)["runs"], []
    for task in dict.fromkeys(run["task"] for run in runs):
        mine = [run for run in runs if run["task"] == task]
        cells: list[str] = []
        for key in ("held_out", "ari"):
            cells += [f"{sum(run[who][key] for run in mine) / len(mine):.3f}" for who in ("ours", "sklearn")]
        used = [_span(run[who]["used"] for run in mine) for who in ("ours", "sklearn")]
        rows.append([f"{task} clusters" if task.isdigit() else task, len(mine), *cells, *used])
    pairs = [f"{what}: {who}" for what in ("log-density", "ARI", "used") for who in ("ours", "scikit-learn")]
    return f"[Raw runs](../{MIXTURES}).\n\n" + markdown(["data", "seeds", *pairs], rows)


#: what the name of a ratio means
_RATIOS = {
    r"(\w+)/floor/A(\d+)": "SVI step, `{0}` guide, {1} actions / the floor",
    r"(\w+)/floor/A(\d+)/bits(\d+)": "SVI step where {2} of 1024 bits vary, `{0}` guide, {1} actions / the floor",
    r"(\w+)/naive": "SVI step, `{0}` guide / the relaxed guide with two Pyro sites per time step",
    r"marginal/(\w+)/(\w+)": "marginal and its gradient, (N, T, K) = {1} / {0}",
    r"exact/discretehmm/(.+)": "marginal and its gradient, {0} / Pyro's `DiscreteHMM`",
    r"(\w+)/([TKN]\d+)/([TKN]\d+)": "SVI step, `{0}` guide, {1} / {2}",
    r"memory/(\w+)/(\w+)/(.+)": "peak memory, `{0}` / {1}, {2}",
    r"grow/step": "one growth / one SVI step",
    r"loading/step": "unpacking and shuffling a batch / one SVI step",
}


def ratio_meaning(name: str) -> str:
    """A ratio of ``benchmarks/run.py`` in words, or its name."""
    for pattern, text in _RATIOS.items():
        found = re.fullmatch(pattern, name)
        if found:
            return text.format(*found.groups())
    return f"`{name}`"


def speed() -> str:
    """The largest committed run of ``benchmarks/run.py``."""
    path = next(path for path in SPEED if (ROOT / path).exists())
    numbers = {name: value for name, value in load(path).items() if "/" in name}
    ratios = {name: value for name, value in numbers.items() if not name.startswith(("seconds/", "megabytes/"))}
    note = f"From [`{path}`](../{path}); below one is faster than, or smaller than, what stands behind the stroke.\n\n"
    return note + markdown(["ratio", "value"], [[ratio_meaning(n), f"{v:.2f}"] for n, v in ratios.items()])


def scaling() -> str:
    """The figure of the full benchmark, where it has been drawn."""
    path = ROOT / "benchmarks/results/scaling.png"
    return f"![Time of a step](../{path.relative_to(ROOT)})\n" if path.exists() else "\n"


def results() -> str:
    """The README's table: what was asked, what came out, and where the raw runs are."""
    sweep, usage, known = (load(path)["runs"] for path in (SWEEP, USAGE, RECOVERY))
    sizes = f"{_span(run['num_messages'] for run in sweep)} messages"
    rows: list[Sequence[object]] = []
    for guide in dict.fromkeys(run["guide"] for run in sweep):
        mine = [run for run in sweep if run["guide"] == guide]
        rows.append([f"message task, {sizes}, `{guide}` guide", f"**{_solved(mine)}** solved", SWEEP])
    rows.append(["the same with the paper's rule, 2 to 8 messages, `relaxed` guide", _solved(usage) + " solved", USAGE])
    for kind in dict.fromkeys(run["kind"] for run in known):
        mine = [run for run in known if run["kind"] == kind]
        rows.append([f"five known options, {kind} actions", _solved(mine, "passed") + " recovered", RECOVERY])
    gaps, found = _gaps(), _found()
    close = f"{sum(abs(gap) <= 0.01 for gap in gaps)} of {len(gaps)} within 0.01 nats per held-out step"
    rows.append(["five known options, discrete actions, K = 5 given: DDO against the `exact` guide", close, BASELINES])
    four = f"{sum(n >= 4 for n in found)} of {len(found)} find at least four"
    rows.append(["five known options, discrete actions: CompILE with the nonparametric prior", four, BASELINES])
    mine = list(_of(load(INTEGERS)["runs"], "method", "compile").values())
    least = [min(run[key] for run in mine) for key in ("boundary_accuracy", "reconstruction")]
    what = f"CompILE's integer sequences, {len(mine)} seeds: boundaries, symbols right"
    rows.append([what, "at least {:.3f}, {:.3f}".format(*least), INTEGERS])
    for path, what in ((BREAKOUT, "Breakout demonstrations"), (SCRIPTED, "episodes of a scripted Breakout expert")):
        runs = load(path)["runs"]
        rows.append([f"{runs[0]['num_episodes']} {what}: held-out nats per step", _grown(path), path])
    runs = load(MIXTURES)["runs"]
    ours, theirs = (sum(run[who]["ari"] for run in runs) / len(runs) for who in ("ours", "sklearn"))
    what = f"Gaussian mixtures grown from one component, {len(runs)} runs: adjusted Rand index"
    rows.append([what, f"{ours:.2f}; scikit-learn {theirs:.2f}", MIXTURES])
    ratios = _span((skilled["frames"] / plain["frames"] for plain, skilled in _switches()), ".2f")
    rows.append(["four switches: frames that PPO needs with skills / without", ratios, SWITCHES])
    rows += [_atari(game, path) for game, path in ATARI.items()]
    return markdown(["question", "answer", "raw runs"], [[*row[:2], f"[JSON]({row[2]})"] for row in rows])


def _atari(game: str, path: str) -> list[str]:
    """PPO with and without skills, over the seeds that both have."""
    runs = load(path)["runs"]
    arms = [_of(runs, "arm", arm) for arm in ("options-exact", "none")]
    seeds, steps = arms[0].keys() & arms[1].keys(), runs[0]["total_steps"]

    def pair(score: Callable[[dict], float]) -> str:
        return " / ".join(f"{float(interquartile_mean([score(arm[seed]) for seed in seeds])):.1f}" for arm in arms)

    end = pair(lambda run: run["final_return"])
    way = pair(lambda run: mean(value for value in run["curve"]["return"] if value is not None))
    what = f"{game} from RAM, {len(seeds)} seeds: return of PPO after {steps:,} decisions with skills / without"
    return [what, f"{end}; on average until then {way}", path]


def _grown(path: str) -> str:
    """Growth against the best fixed K and against a single policy."""
    rows = _rows(path)
    score = {name: mean(run["exact_log_likelihood"] for run in mine) for name, mine in rows.items()}
    grown = "growth, exact guide"
    best = max((name for name in rows if "growth" not in name), key=lambda name: score[name])
    cells = (
        f"grown K = {_span(run['num_options'] for run in rows[grown])}: {score[grown]:.3f}",
        f"{best}: {score[best]:.3f}",
    )
    return ", ".join([*cells, f"K = 1: {score['K = 1']:.3f}"])


#: what the pages include, by the name of the file
TABLES: dict[str, Callable[[], str]] = {
    "message_task": message_task,
    "paper_rule": paper_rule,
    "recovery": recovery,
    "baselines": baselines,
    "integers": integers,
    "breakout": lambda: fixed_and_grown(BREAKOUT),
    "breakout_scripted": lambda: fixed_and_grown(SCRIPTED),
    "switches": switches,
    "option_length": option_length,
    "mixtures": mixtures,
    "speed": speed,
    "scaling": scaling,
}


def with_results(readme: str) -> str:
    """The README with its table as the raw results are now."""
    start, end = (readme.index(mark) for mark in _MARKS)
    return readme[: start + len(_MARKS[0])] + results() + readme[end:]


def setup(app) -> dict:
    made = {name: table() for name, table in TABLES.items()}
    app.connect("builder-inited", lambda app: write_pages(Path(app.srcdir) / "_generated", made, ".md"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(with_results(path.read_text()))
