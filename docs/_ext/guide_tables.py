"""Tables of guides on Atari, of hard options and of gradient estimates, from committed raw results."""

from collections.abc import Callable, Sequence
from statistics import mean, median

import raw
from pages import markdown, span
from raw import load, solved

_KINDS = {"discrete": "five known options, discrete actions", "continuous": "five known options, continuous actions"}


def _methods(runs: Sequence[dict], name: str, expected: int) -> list[str]:
    """A row: what both methods find, and in what time."""
    hard, exact = ([run for run in runs if run["method"] == one] for one in ("options-hard", "options-exact"))
    cells = [name, solved(hard, "solved"), f"{sum(run['num_options'] == expected for run in hard)} of {len(hard)}"]
    cells.append(f"{median(run['seconds'] for run in hard):.1f}")
    if not exact:
        return [*cells, "–", "–", "–"]
    pairs = {run["seed"]: run["seconds"] for run in hard}
    shares = [pairs[run["seed"]] / run["seconds"] for run in exact]
    return [*cells, solved(exact, "solved"), f"{median(run['seconds'] for run in exact):.1f}", span(shares, ".2f")]


def hard_options() -> str:
    """Hard options beside the exact guide."""
    runs, rows = load(raw.HARD)["runs"], []
    for kind, name in _KINDS.items():
        rows.append(_methods([run for run in runs if run.get("kind") == kind], name, 5))
    for count in sorted({run["count"] for run in runs if run["part"] == "messages"}):
        rows.append(_methods([run for run in runs if run.get("count") == count], f"{count} messages", count))
    header = ["problem", "`options-hard` solves", "K as it should be", "CPU s", "`options-exact` solves", "CPU s"]
    return markdown([*header, "time of the first / second"], rows)


def hard_starts() -> str:
    """Discovery with and without a training from hard options, where that was chosen, on tasks of the suite."""
    runs = [run for run in load(raw.HARD)["runs"] if run["part"] == "starts"]
    pairs: dict[tuple[str, int], dict[str, dict]] = {}
    for run in runs:
        pairs.setdefault((run["task"], run["seed"]), {})[run["start"]] = run
    shown, rows = (("held_out_log_likelihood", ".3f"), ("accuracy", ".3f"), ("used_options", "d")), []
    for (task, seed), both in sorted(pairs.items()):
        if all(both["default"][key] == both["hard"][key] for key, _ in shown):
            continue
        cells = [f"`{task}`", seed]
        for key, form in shown:
            cells += [f"{both[start][key]:{form}}" for start in ("default", "hard")]
        rows.append(cells)
    header = ["task", "seed", "held-out nats per step", "with hard", "accuracy", "with hard", "in use", "with hard"]
    times = [both["hard"]["seconds"] / both["default"]["seconds"] for both in pairs.values()]
    seeds = ", ".join(map(str, sorted({seed for _, seed in pairs})))
    same = f"The same result in the other {len(pairs) - len(rows)} of {len(pairs)} runs, seeds {seeds}; "
    return markdown(header, rows) + f"\n\n{same}{median(times):.1f} times the time (median)."


def _paired(runs: Sequence[dict], row: str, other: str) -> list[float]:
    """Differences of likelihoods, for the seeds that both rows have."""
    score = {(run["row"], run["seed"]): run["exact_log_likelihood"] for run in runs}
    return [score[row, seed] - score[other, seed] for r, seed in score if r == row and (other, seed) in score]


def mean_gap(runs: Sequence[dict], row: str, other: str) -> float:
    """Mean paired difference of likelihoods."""
    return mean(_paired(runs, row, other))


def _gaps(runs: Sequence[dict], row: str, other: str) -> str:
    """Mean, least and greatest paired difference of likelihoods."""
    gaps = _paired(runs, row, other)
    return "" if not gaps or row == other else f"{mean(gaps):+.3f} ({span(gaps, '+.3f')})"


def guides(path: str = raw.GUIDES) -> str:
    """Every guide on Atari demonstrations, judged by the exact likelihood of held-out episodes."""
    runs, rows = load(path)["runs"], []
    for row in dict.fromkeys(run["row"] for run in runs):
        mine = [run for run in runs if run["row"] == row]
        likelihood = f"{mean(run['exact_log_likelihood'] for run in mine):.3f}"
        exact = f"{row.split(',')[0]}, exact"
        cells = [row, len(mine), likelihood, _gaps(runs, row, exact), _gaps(runs, row, "one policy")]
        rows.append([*cells, span(run["used_options"] for run in mine)])
    header = ["row", "seeds", "nats per held-out step", "minus exact", "minus one policy", "options in use"]
    return markdown(header, rows)


def _last(runs: Sequence[dict], value: Callable[[dict], float], form: str) -> str:
    """Median over seeds at the end of training."""
    return f"{median(value(run['curve'][-1]) for run in runs):{form}}"


def _middle(runs: Sequence[dict], value: Callable[[dict], float], form: str) -> str:
    """Median over seeds halfway through the measurements, where gradients are not yet small."""
    return f"{median(value(run['curve'][len(run['curve']) // 2]) for run in runs):{form}}"


def _above(runs: Sequence[dict]) -> str:
    """How many measurements of the objective are more than three standard errors above log p."""
    points = [point for run in runs for point in run["curve"]]
    # 1e-6: the exact guide computes log p in single precision, as the reference does
    above = sum(p["objective"] > p["log_marginal"] + 3 * p["objective_error"] + 1e-6 for p in points)
    return f"{above} of {len(points)}"


def estimators() -> str:
    """Every gradient estimate on both problems."""
    runs, parts = load(raw.ESTIMATORS)["runs"], []
    for problem in dict.fromkeys(run["problem"] for run in runs):
        rows = []
        for name in dict.fromkeys(run["estimator"] for run in runs):
            mine = [run for run in runs if run["estimator"] == name and run["problem"] == problem]
            if not mine:
                continue
            cells = [f"`{name}`", _last(mine, lambda p: p["log_marginal"], ".3f")]
            cells.append(_last(mine, lambda p: p["log_marginal"] - p["objective"], ".3f"))
            cells += [_above(mine), _last(mine, lambda p: p["divergence"], ".3f")]
            cells.append(_middle(mine, lambda p: p["model_gradient"]["bias"], ".2f"))
            cells.append(_middle(mine, lambda p: p["model_gradient"]["variance"], ".2f"))
            enumerated = "guide_gradient" in mine[0]["curve"][0]
            cells.append(_middle(mine, lambda p: p["guide_gradient"]["cosine"], ".2f") if enumerated else "–")
            rows.append(cells)
        seeds = len({run["seed"] for run in runs if run["problem"] == problem})
        header = ["guide", "log p", "log p − objective", "objective above log p", "KL(q ‖ posterior)"]
        header += ["bias, model", "variance, model", "cosine, guide"]
        parts.append(f"**{problem}**, medians over seeds ({seeds}):\n\n" + markdown(header, rows))
    return "\n".join(parts)
