"""Tables made of committed raw results, so that no page holds a number that somebody typed.

``update_tables.py`` writes them into the pages.
"""

import re
from collections.abc import Callable
from statistics import mean, median

import guide_tables
import raw
from pages import markdown, span
from raw import breakout_rows, by_seed, load, solved, switches_pairs


def message_task() -> str:
    """Every guide of the sweep, over all vocabulary sizes."""
    rows = []
    runs = load(raw.SWEEP)["runs"]
    for guide in dict.fromkeys(run["guide"] for run in runs):
        mine = [run for run in runs if run["guide"] == guide]
        seconds = [run["processor_seconds"] for run in mine]
        used = sum(run["used_options"] == run["num_messages"] for run in mine)
        beyond = max(run["num_options"] - run["num_messages"] for run in mine)
        cells = f"`{guide}`", solved(mine), f"{used} of {len(mine)}", beyond
        rows.append([*cells, f"{median(seconds):.0f}, {max(seconds):.0f}"])
    header = "guide", "success", "used options = messages", "largest K − messages"
    return markdown([*header, "CPU seconds, median and maximum"], rows)


def paper_rule(path: str = raw.USAGE) -> str:
    """The paper's guide with its rule, or with all of its settings, by vocabulary size."""
    runs, rows = load(path)["runs"], []
    for size in sorted({run["num_messages"] for run in runs}):
        mine = [run for run in runs if run["num_messages"] == size]
        rows.append([size, solved(mine), span(run["num_options"] for run in mine)])
    return markdown(["messages", "success", "K"], rows)


def recovery() -> str:
    runs, rows = load(raw.RECOVERY)["runs"], []
    for kind in dict.fromkeys(run["kind"] for run in runs):
        mine = [run for run in runs if run["kind"] == kind]
        accuracy = [run["accuracy"] for run in mine]
        rows.append([kind, solved(mine, "passed"), f"{median(accuracy):.3f}", f"{min(accuracy):.3f}"])
    return markdown(
        ["actions", "five options in use and accuracy ≥ 0.95", "median accuracy on held-out episodes", "minimum"], rows
    )


def decisions() -> str:
    """Simulated mice: discovery with intervals beside EM."""
    runs, rows = load(raw.DECISIONS)["runs"], []
    em, sweeps = (by_seed(runs, "part", part) for part in ("em", "sweep"))
    ours = by_seed(runs, "part", "discover")
    for seed, run in ours.items():
        inside = f"{run['within_two_errors']} of {run['coefficients']}"
        seconds = f"{run['discover_seconds'] + run['laplace_seconds']:.1f}"
        swept = f"K = {sweeps[seed]['num_states']}, {sweeps[seed]['seconds']:.1f}" if seed in sweeps else ""
        accuracy = f"{run['accuracy']:.3f}", f"{em[seed]['accuracy']:.3f}"
        rows.append([seed, run["num_states"], inside, *accuracy, seconds, swept])
    inside, all_ = (sum(run[key] for run in ours.values()) for key in ("within_two_errors", "coefficients"))
    right = sum(run["num_states"] == 3 for run in ours.values())
    rows.append(["all", f"3 in {right} of {len(ours)}", f"{inside} of {all_}", "", "", "", ""])
    header = "animal", "K found", "weights within two standard errors", "accuracy of states", "EM told K = 3"
    return markdown([*header, "CPU seconds, K found and intervals", "EM sweep: K and CPU seconds"], rows)


def baselines() -> str:
    """Known options: DDO, the exact guide and nonparametric CompILE."""
    runs, rows = load(raw.BASELINES)["runs"], []
    for arm in dict.fromkeys(run["arm"] for run in runs):
        mine = list(by_seed(runs, "arm", arm).values())
        accuracy, found = [run["accuracy"] for run in mine], [run["found_options"] for run in mine]
        cells = (
            f"{median(run['log_likelihood'] for run in mine):.4f}",
            f"{median(accuracy):.3f}",
            f"{min(accuracy):.3f}",
        )
        four = f"{sum(n >= 4 for n in found)} of {len(found)}"
        seconds = span((run["processor_seconds"] for run in mine), ".0f")
        rows.append([f"`{arm}`", *cells, four, span(run["num_options"] for run in mine), seconds])
    header = "held-out nats per step, median", "accuracy, median", "minimum", "at least 4 of 5 options found", "K"
    return markdown(["method", *header, "CPU seconds"], rows)


def integers() -> str:
    """CompILE's integer sequences, by the seed that does worst as well."""
    runs, rows = load(raw.INTEGERS)["runs"], []
    for name in dict.fromkeys(run["method"] for run in runs):
        mine = list(by_seed(runs, "method", name).values())
        cells: list[str] = []
        for key in ("boundary_accuracy", "boundary_f1", "reconstruction", "whole_sequences"):
            values = [run[key] for run in mine]
            cells.append(f"{median(values):.3f} ({min(values):.3f})")
        rows.append([f"`{name}`", len(mine), *cells, span(run["used_options"] for run in mine)])
    header = "boundaries found", "boundary F1", "symbols reconstructed", "whole sequences right", "options in use"
    return markdown(["method", "seeds", *header], rows)


def fixed_and_grown(path: str) -> str:
    """Held-out likelihood of growth and of fixed numbers of options, on average and by seed."""
    rows = []
    for name, mine in breakout_rows(path).items():
        values = [run["exact_log_likelihood"] for run in mine]
        spans = (span(run[key] for run in mine) for key in ("num_options", "used_options"))
        length = f"{mean(run['mean_segment_length'] for run in mine):.1f}"
        others = length, f"{max(run['processor_seconds'] for run in mine):.0f}"
        bold = "**" if "growth" in name else ""
        score, each = f"{mean(values):.3f}", ", ".join(f"{value:.3f}" for value in values)
        rows.append([f"{bold}{name}{bold}", score if len(mine) == 1 else f"{score} ({each})", *spans, *others])
    header = "held-out nats per step", "K", "options in use", "mean segment length", "CPU seconds"
    return markdown(["options", *header], rows)


def switches() -> str:
    rows = []
    for plain, skilled in switches_pairs():
        total = skilled["frames"] + skilled["demonstration_frames"]
        cells = skilled["seed"], f"{plain['frames']:,}", f"{skilled['frames']:,}", skilled["num_options"]
        rows.append([*cells, f"{skilled['frames'] / plain['frames']:.2f}", f"{total / plain['frames']:.2f}"])
    header = "seed", "plain actions", "with skills", "options found", "ratio", "ratio with the demonstrations' frames"
    return markdown(header, rows)


def skill_cost() -> str:
    """How fast an environment runs with skills and without."""
    found = load(raw.SKILL_COST)
    rates = (f"{found['steps_per_second'][name]:,.0f}" for name in ("plain", "skills"))
    row = [found["args"]["game"], *rates, f"{found['ratio']:.2f}", f"{found['mean_duration']:.1f}"]
    header = "game", "steps per second, plain actions", "with skills", "ratio", "steps per decision with skills"
    return markdown(header, [row])


_KINDS = {"GuidedSearchExpert": "guided search", "PolicyExpert": "network", "MontezumaExpert": "exploration"}


def experts() -> str:
    """Scores of the Atari experts beside random play, and those of their clones."""
    found, rows = load(raw.EXPERTS), []
    for one in found["results"]:
        random, score, whole = one["random_mean_return"], one["mean_return"], one["whole_mean_return"]
        about = one["game"], _KINDS.get(one["expert"], "script"), f"{one['max_steps']:,}"
        cells = f"{score:,.1f} ({one['min_return']:,.0f} to {one['max_return']:,.0f})", f"{random:,.1f}"
        ratio, games = f"{score / random:.1f}" if random > 0 else "", "" if whole is None else f"{whole:,.1f}"
        clone, speed = f"{one['clone_mean_return']:,.1f}", f"{one['milliseconds_per_action']:.1f}"
        rows.append([*about, *cells, ratio, games, clone, speed])
    count = found["args"]["num_episodes"]
    header = "actions at most", f"expert, {count} games", "random play, whole games", "ratio"
    games = "expert, whole games", "its clone, whole games"
    return markdown(["game", "kind", *header, *games, "milliseconds per action"], rows)


def throughput() -> str:
    """What limits the emulator steps of the Atari study."""
    rows = []
    for one in load(raw.THROUGHPUT)["results"]:
        names = "gain", "gain_with_skills", "gain_of_study", "gain_of_study_with_32", "emulator_to_study"
        rows.append([one["game"], *(f"{one[name]:.2f}" for name in names)])
    header = "plain actions", "with skills", "with skills, learning included", "the same with 32 environments"
    return markdown(["game", *header, "bare emulator against learning included"], rows)


def imitation() -> str:
    """How well options play alone and together, without learning."""
    runs, rows = load(raw.IMITATION)["runs"], []
    for game, arm in dict.fromkeys((run["game"], run["arm"]) for run in runs):
        mine = [run for run in runs if (run["game"], run["arm"]) == (game, arm)]
        scores = [max(run["alone"]) for run in mine], [run["together"] for run in mine], [run["expert"] for run in mine]
        cells = (f"{mean(values):.1f} ({span(values, '.1f')})" for values in scores)
        nats = f"{mean(run['log_likelihood'] for run in mine):.3f}"
        rows.append([game, f"`{arm}`", len(mine), span(run["num_options"] for run in mine), nats, *cells])
    header = "options", "held-out nats per step", "best single option", "all options together", "expert"
    return markdown(["game", "method", "seeds", *header], rows)


def option_length() -> str:
    rows = []
    for run in load(raw.LENGTHS)["runs"]:
        likelihood, length = f"{run['exact_log_likelihood']:.3f}", f"{run['mean_segment_length']:.1f}"
        rows.append([f"{run['termination_cost']:g}", likelihood, length, run["used_options"]])
    return markdown(["cost", "held-out nats per step", "mean segment length", "options in use"], rows)


def mixtures() -> str:
    """Growing mixtures beside scikit-learn's with a fixed truncation."""
    if not (raw.ROOT / raw.MIXTURES).exists():
        return "*No runs of this version are committed.*\n"
    runs, rows = load(raw.MIXTURES)["runs"], []
    for task in dict.fromkeys(run["task"] for run in runs):
        mine = [run for run in runs if run["task"] == task]
        cells: list[str] = []
        for key in ("held_out", "ari"):
            cells += [f"{sum(run[who][key] for run in mine) / len(mine):.3f}" for who in ("ours", "sklearn")]
        used = [span(run[who]["used"] for run in mine) for who in ("ours", "sklearn")]
        rows.append([f"{task} clusters" if task.isdigit() else task, len(mine), *cells, *used])
    pairs = [f"{what}: {who}" for what in ("log-density", "ARI", "used") for who in ("ours", "scikit-learn")]
    return f"[Raw runs](../{raw.MIXTURES}).\n\n" + markdown(["data", "seeds", *pairs], rows)


#: methods of the suite beside ours, with their names in its table
_OTHERS = {"options": "`relaxed` guide", "ddo": "DDO", "compile": "CompILE", "compile-np": "CompILE-NP"}


def _warned(run: dict) -> bool:
    """Whether discovery said that its answer is not to be relied on."""
    return any(text.startswith("DiscoveryWarning") for text in run["warnings"])


def suite() -> str:
    """The public suite, a row per task: our defaults, then accuracy and boundary F1 of the others."""
    if not (raw.ROOT / raw.SUITE).exists():
        return "*No runs of this version are committed.*\n"
    runs, rows = load(raw.SUITE)["runs"], []
    others = {name: title for name, title in _OTHERS.items() if any(run["method"] == name for run in runs)}

    def middle(mine: list[dict], key: str, form: str = ".2f") -> str:
        return f"{median(run[key] for run in mine):{form}}" if mine else "–"

    for task in dict.fromkeys(run["task"] for run in runs):
        here = [run for run in runs if run["task"] == task]
        by = {name: [run for run in here if run["method"] == name] for name in ("options-exact", *others)}
        ours = by["options-exact"]
        least = f" ({min(run['accuracy'] for run in ours):.2f})" if ours else ""
        cells = [f"`{task}`", here[0]["true_options"], len(ours), ", ".join(str(run["used_options"]) for run in ours)]
        cells += [middle(ours, "accuracy") + least, middle(ours, "nmi")]
        cells.append(f"{middle(ours, 'boundary_f1')}, {middle(ours, 'boundary_f1_within_1')}")
        cells += [middle(ours, "mean_segment_length", ".1f"), middle(ours, "held_out_in_original_units", ".3f")]
        cells += [middle(ours, "seconds", ".0f"), sum(map(_warned, ours))]
        cells += [f"{middle(by[name], 'accuracy')}, {middle(by[name], 'boundary_f1')}" for name in others]
        rows.append(cells)
    header = "task", "true K", "seeds", "options in use, by seed", "accuracy (minimum)", "NMI", "F1: exact, ± 1"
    more = (
        "mean length",
        "held-out nats per step",
        "seconds",
        "runs that warn",
        *(f"{name}: accuracy, F1" for name in others.values()),
    )
    ours = [run for run in runs if run["method"] == "options-exact"]
    intervals = [(run["options_in_use"]["interval"], run.get("true_in_use", run["true_options"])) for run in ours]
    covered = sum(low <= true <= high for (low, high), true in intervals)
    losses = [run["removal_loss"] for run in ours if run["removal_loss"] is not None]
    note = (
        f"The 90 % interval of the options in use contains the true number in {covered} of these {len(ours)} runs. No "
        f"removal that was accepted cost more than {max(losses):.1f} nats of all episodes that judged it.\n"
    )
    text = f"[Raw runs](../{raw.SUITE}); medians over the seeds.\n\n" + markdown([*header, *more], rows)
    return f"{text}\n{note}"


#: what the name of a ratio means
_RATIOS = {
    r"(\w+)/floor/A(\d+)": "SVI step, `{0}` guide, {1} actions / the floor",
    r"(\w+)/floor/A(\d+)/bits(\d+)": "SVI step where {2} of 1024 bits vary, `{0}` guide, {1} actions / the floor",
    r"([\w-]+)/paper/A(\d+)": "SVI step, `{0}` guide / `paper` guide, {1} actions",
    r"(\w+)/naive": "SVI step, `{0}` guide / the paper's guide with two Pyro sites per time step",
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
    path = next(path for path in raw.SPEED if (raw.ROOT / path).exists())
    numbers = {name: value for name, value in load(path).items() if "/" in name}
    ratios = {name: value for name, value in numbers.items() if not name.startswith(("seconds/", "megabytes/"))}
    note = f"From [`{path}`](../{path}); below 1 means faster, or smaller, than what stands after the slash.\n\n"
    return note + markdown(["ratio", "value"], [[ratio_meaning(n), f"{v:.2f}"] for n, v in ratios.items()])


def ram_steps() -> str:
    """A step from stored bytes to updated parameters, with and without products of packed bits."""
    found = load(raw.RAM_STEPS)
    rows = []
    for varying, took in (one for one in found["seconds"].items() if one[0].isdigit()):
        for guide in ("exact", "paper", "relaxed"):
            old, new = took[f"unpacked {guide}"], took[guide]
            cells = (f"{1e3 * seconds:.0f}" for seconds in (old, new))
            rows.append([f"`{guide}`", varying, *cells, f"{new / old:.2f}", f"{new / took['floor']:.2f}"])
    ratios, errors = found["ratios"]["1024"], found["errors"]
    header = ["guide", "bits that vary", "unpacked, ms", "packed, ms", "packed / unpacked", "packed / floor"]
    note = (
        f"From [`{raw.RAM_STEPS}`](../{raw.RAM_STEPS}). Making the batch is {ratios['loading / exact']:.2f} of the "
        f"exact step. A step of `relaxed` is {ratios['relaxed / naive']:.3f} of one of the paper's model and guide "
        f"with two Pyro sites per time step, whose floats are ready; one of `paper` {ratios['paper / naive']:.3f}. "
        "Largest error in single precision, relative to the largest number: "
        f"{errors['product, tables']:.0e} of the product and {errors['gradient, tables']:.0e} of its gradient (of "
        f"floats: {errors['product, floats']:.0e} and {errors['gradient, floats']:.0e}).\n"
    )
    return markdown(header, rows) + "\n" + note


def mapped_memory() -> str:
    """Memory and time of discovery on a folder of ten million steps."""
    found = load(raw.MAPPED)
    measured = {
        "steps": f"{found['steps']:,}",
        "bytes of the folder": f"{found['folder_bytes'] / 1e9:.2f} GB",
        "anonymous memory at its peak": f"{found['anonymous_bytes'] / 1e9:.2f} GB",
        "processor time, opening and verifying included": f"{found['processor_seconds'] / 60:.1f} minutes",
        "updates": f"{found['updates']:,}",
    }
    return markdown(
        ["", f"`discover(held_out=0.1, epochs={found['epochs']})`"], [list(one) for one in measured.items()]
    )


def processes() -> str:
    """Processor time of an update in one process, and in each of several."""
    found = load(raw.PARALLEL)
    rows = [["one process", f"{1e3 * found['alone']['processor_seconds']:.0f}", "1"]]
    for number, (one, share) in enumerate(zip(found["each"], found["shares"]), 1):
        name = f"process {number} of {found['processes']}"
        rows.append([name, f"{1e3 * one['processor_seconds']:.0f}", f"{share:.2f}"])
    return markdown(["", "processor ms an update", "of one process"], rows)


def billion_steps() -> str:
    """How long an epoch of a billion steps takes and what has to be read and sent, from the measured step."""
    found, steps, length, step_bytes = load(raw.PARALLEL), 1e9, 300, 129
    alone, measured = found["alone"], found["processes"]
    slowed = measured * mean(found["shares"])  # by dividing the work, in processor time of all together
    own = alone["steps"] / measured  # steps of an update that one process has
    rows = []
    for count in (1, 8, 64, 256):
        seconds = alone["processor_seconds"] / alone["steps"] * (slowed if count > 1 else 1)  # a step
        sent = 2 * (count - 1) / count * alone["gradient_bytes"] / (own * seconds)
        hours, read = steps * seconds / count / 3600, step_bytes / seconds
        batch = alone["steps"] if count == 1 else own * count
        cells = f"{batch / length:,.0f}", f"{hours * 60:,.1f}", f"{hours * 10:,.2f}"
        rows.append([count, *cells, f"{read / 1e6:.0f}", f"{count * read / 1e9:.2f}", f"{sent / 1e6:.1f}"])
    header = "processes", "episodes an update", "minutes an epoch", "hours for 10 epochs", "MB/s read by each"
    return markdown([*header, "GB/s read by all", "MB/s sent by each"], rows)


def scaling() -> str:
    """The figure of the full benchmark, where it has been drawn."""
    path = raw.ROOT / "benchmarks/results/scaling.png"
    return f"![Time of a step](../{path.relative_to(raw.ROOT)})\n" if path.exists() else "\n"


def ablation() -> str:
    """The ablations of the paper's guide, one row each; the file repeats them as sums over vocabulary sizes."""
    lines = (raw.ROOT / raw.ABLATION).read_text().splitlines()
    return "\n".join(line for line in lines if not line.startswith("| **")) + "\n"


def atari() -> str:
    """The tables and the figure of the Atari study, its headings one level deeper."""
    path = raw.ROOT / raw.ATARI_PAGE
    text = re.search(r"^## .*", path.read_text(), re.DOTALL | re.MULTILINE)[0]  # type: ignore[index]
    text = re.sub(r"^#", "##", text, flags=re.MULTILINE)
    return re.sub(r"\]\((?=[\w.]+\.png\))", f"](../{path.parent.relative_to(raw.ROOT)}/", text)


#: the tables of the pages, by the name in their marks
TABLES: dict[str, Callable[[], str]] = {
    "message_task": message_task,
    "paper_rule": paper_rule,
    "paper_settings": lambda: paper_rule(raw.PAPER),
    "ablation": ablation,
    "recovery": recovery,
    "decisions": decisions,
    "baselines": baselines,
    "integers": integers,
    "breakout": lambda: fixed_and_grown(raw.BREAKOUT),
    "breakout_scripted": lambda: fixed_and_grown(raw.SCRIPTED),
    "switches": switches,
    "skill_cost": skill_cost,
    "experts": experts,
    "throughput": throughput,
    "imitation": imitation,
    "atari": atari,
    "option_length": option_length,
    "mixtures": mixtures,
    "suite": suite,
    "guides": guide_tables.guides,
    "guides_freeway": lambda: guide_tables.guides(raw.GUIDES_FREEWAY),
    "hard_options": guide_tables.hard_options,
    "hard_starts": guide_tables.hard_starts,
    "estimators": guide_tables.estimators,
    "speed": speed,
    "processes": processes,
    "billion_steps": billion_steps,
    "ram_steps": ram_steps,
    "mapped_memory": mapped_memory,
    "scaling": scaling,
}
