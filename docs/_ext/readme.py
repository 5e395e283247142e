"""The README's table, made of committed raw results; ``update_tables.py`` writes it."""

from collections.abc import Callable, Sequence
from statistics import mean

import raw
from guide_tables import mean_gap
from pages import markdown, span
from raw import breakout_rows, by_seed, compile_np_found, ddo_gaps, load, solved, switches_pairs

from pyro_options.experiments import interquartile_mean


def results() -> str:
    """The README's table: what was asked, what came out, and where the raw runs are."""
    sweep, usage, known = (load(path)["runs"] for path in (raw.SWEEP, raw.USAGE, raw.RECOVERY))
    sizes = f"{span(run['num_messages'] for run in sweep)} messages"
    rows: list[Sequence[object]] = []
    for guide in dict.fromkeys(run["guide"] for run in sweep):
        mine = [run for run in sweep if run["guide"] == guide]
        rows.append([f"message task, {sizes}, `{guide}` guide", f"**{solved(mine)}** solved", raw.SWEEP])
    rows.append(
        ["the same with the paper's rule, 2 to 8 messages, `paper` guide", solved(usage) + " solved", raw.USAGE]
    )
    literal = load(raw.PAPER)["runs"]
    few = [run for run in literal if run["num_messages"] <= 4]
    answer = f"{solved(few)} solved with 2 to 4 messages, {solved(literal)} in all"
    rows.append(['the same with all settings of the paper (`preset="paper"`)', answer, raw.PAPER])
    for kind in dict.fromkeys(run["kind"] for run in known):
        mine = [run for run in known if run["kind"] == kind]
        rows.append([f"five known options, {kind} actions", solved(mine, "passed") + " recovered", raw.RECOVERY])
    gaps, found = ddo_gaps(), compile_np_found()
    close = f"{sum(abs(gap) <= 0.01 for gap in gaps)} of {len(gaps)} within 0.01 nats per held-out step"
    rows.append(
        ["five known options, discrete actions, K = 5 given: DDO against the `exact` guide", close, raw.BASELINES]
    )
    four = f"{sum(n >= 4 for n in found)} of {len(found)} find at least four"
    rows.append(["five known options, discrete actions: CompILE with the nonparametric prior", four, raw.BASELINES])
    mine = list(by_seed(load(raw.INTEGERS)["runs"], "method", "compile").values())
    least = [min(run[key] for run in mine) for key in ("boundary_accuracy", "reconstruction")]
    what = f"CompILE's integer sequences, {len(mine)} seeds: boundaries found, symbols reconstructed"
    rows.append([what, "at least {:.3f}, {:.3f}".format(*least), raw.INTEGERS])
    for path, what in (
        (raw.BREAKOUT, "Breakout demonstrations"),
        (raw.SCRIPTED, "episodes of a scripted Breakout expert"),
    ):
        runs = load(path)["runs"]
        rows.append([f"{runs[0]['num_episodes']} {what}: held-out nats per step", _grown(path), path])
    runs = load(raw.GUIDES)["runs"]
    for how, name in (("with K = 8", "K = 8"), ("with growth", "growth")):
        behind = {guide: mean_gap(runs, f"{name}, {guide}", f"{name}, exact") for guide in ("relaxed", "paper")}
        what = f"{runs[0]['num_episodes']} Breakout demonstrations, amortized guides {how}: nats per held-out step"
        answer = ", ".join(f"`{guide}` {gap:+.3f}" for guide, gap in behind.items())
        rows.append([f"{what}, minus those of the `exact` guide", answer, raw.GUIDES])
    runs = load(raw.MIXTURES)["runs"]
    ours, theirs = (sum(run[who]["ari"] for run in runs) / len(runs) for who in ("ours", "sklearn"))
    what = f"Gaussian mixtures grown from one component, {len(runs)} runs: adjusted Rand index"
    rows.append([what, f"{ours:.2f}; scikit-learn {theirs:.2f}", raw.MIXTURES])
    ratios = span((skilled["frames"] / plain["frames"] for plain, skilled in switches_pairs()), ".2f")
    rows.append(["four switches: frames that PPO needs with skills, relative to without", ratios, raw.SWITCHES])
    rows += [_atari(game, path) for game, path in raw.ATARI.items()]
    return markdown(["question", "answer", "raw runs"], [[*row[:2], f"[JSON]({row[2]})"] for row in rows])


def _atari(game: str, path: str) -> list[str]:
    """PPO with and without skills, over the seeds that both have."""
    runs = load(path)["runs"]
    arms = [by_seed(runs, "arm", arm) for arm in ("options-exact", "none")]
    seeds, steps = arms[0].keys() & arms[1].keys(), runs[0]["total_steps"]

    def pair(score: Callable[[dict], float]) -> str:
        return " / ".join(f"{float(interquartile_mean([score(arm[seed]) for seed in seeds])):.1f}" for arm in arms)

    end = pair(lambda run: run["final_return"])
    way = pair(lambda run: mean(value for value in run["curve"]["return"] if value is not None))
    what = f"{game} from RAM, {len(seeds)} seeds: return of PPO after {steps:,} decisions, with / without skills"
    return [what, f"{end}; mean over training {way}", path]


def _grown(path: str) -> str:
    """Growth against the best fixed K and against a single policy."""
    rows = breakout_rows(path)
    score = {name: mean(run["exact_log_likelihood"] for run in mine) for name, mine in rows.items()}
    grown = "growth, exact guide"
    best = max((name for name in rows if "growth" not in name), key=lambda name: score[name])
    cells = (
        f"grown K = {span(run['num_options'] for run in rows[grown])}: {score[grown]:.3f}",
        f"{best}: {score[best]:.3f}",
    )
    return ", ".join([*cells, f"K = 1: {score['K = 1']:.3f}"])
