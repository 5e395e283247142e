"""Speed of a training step, as ratios of times that are measured alternately in one process.

Run it with::

    python benchmarks/run.py                 # everything; a quarter of an hour
    python benchmarks/run.py --quick         # the ratios that the tests compare; a minute
    python benchmarks/run.py --json FILE     # write the ratios, raw times under seconds/…, and scaling.png beside them

The *floor* is the minimum that any method needs: the product of the states with all policy and termination heads, a
scalar loss, backward, Adam. A ratio ``a/b`` is the time of a over the time of b; lower is better. dynamax and jax are
included if they are installed: ``pip install "pyro-options[bench]"``.

There is no log-depth (associative) scan. A transition is diagonal plus rank one, but the product of two is a full
matrix: the scan takes O(T K^2) memory and O(T K^3) work where the loop takes O(T K). The ratios to ``DiscreteHMM``,
which runs exactly that scan, show the difference at every length. With one compiled loop per episode and more episodes
than cores, the loop already uses all cores.
"""

import argparse
import itertools
import warnings
from collections.abc import Iterable
from pathlib import Path

import torch
from marginals import MISSING, autograd_loop, discrete_hmm, emission_of, inputs, jax_contenders, ours, with_gradient
from memory import JOBS, peak_megabytes
from naive import naive_step
from steps import BITS, Shape, floor, svi_step, trainer
from timing import race

from pyro_options.experiments import write_results
from pyro_options.growth import grow

#: upper limits of the ratios
BARS = {
    "exact/floor/A4": 1.25,
    "exact/floor/A18": 1.25,
    "paper/floor/A4": 2.5,
    "paper/floor/A18": 2.5,
    **{f"{guide}/paper/{where}": 1.0 for guide in ("relaxed", "relaxed-marginal") for where in ("A4", "A18")},
    "paper/naive": 0.1,
    "exact/T1000/T100": 11.0,
    "paper/T1000/T100": 11.0,
    "exact/K32/K4": 9.0,
    "memory/exact/discretehmm/T1000": 1.0,
}
GUIDES = ("exact", "paper")
STRUCTURED = ("relaxed", "relaxed-marginal")  # no step of theirs may cost more than one of the paper's guide


class Report(dict):
    """A flat mapping of names to numbers: ratios, and raw values under ``seconds/`` and ``megabytes/``.

    :param judge: print whether each ratio is within its limit; the limits are for the shapes of the full run
    """

    def __init__(self, judge: bool):
        super().__init__()
        self.judge = judge

    def times(self, seconds: dict[str, float]) -> None:
        for name, value in seconds.items():
            self[f"seconds/{name}"] = value

    def ratio(self, name: str, ours: str, theirs: str, unit: str = "seconds") -> None:
        self[name] = self[f"{unit}/{ours}"] / self[f"{unit}/{theirs}"]
        bar = 1.0 if name.startswith(("marginal/", "exact/discretehmm")) else BARS.get(name)
        verdict = "" if bar is None or not self.judge else f"   at most {bar:g}: {'yes' if self[name] <= bar else 'NO'}"
        own, other = self[f"{unit}/{ours}"], self[f"{unit}/{theirs}"]
        scale, symbol = (1e3, "ms") if unit == "seconds" else (1, "MB")
        print(
            f"{name:36s}{self[name]:8.3f}   ({own * scale:9.2f} / {other * scale:9.2f} {symbol}){verdict}", flush=True
        )


def measure_steps(report: Report, shapes: Iterable[Shape], rounds: int) -> None:
    """Steps of each guide against the floor, which always multiplies all bits, even if only some vary."""
    for shape in shapes:
        where = f"A{shape.actions}" + (f"/bits{shape.varying}" if shape.varying < BITS else "")
        batch = shape.batch()
        contenders = {f"floor/{where}": floor(shape, batch)}
        contenders |= {f"{guide}/{where}": svi_step(guide, shape, batch) for guide in GUIDES + STRUCTURED}
        report.times(race(contenders, rounds))
        for guide in GUIDES:
            report.ratio(f"{guide}/floor/{where}", f"{guide}/{where}", f"floor/{where}")
        for guide in STRUCTURED:
            report.ratio(f"{guide}/paper/{where}", f"{guide}/{where}", f"paper/{where}")


def measure_naive(report: Report, shape: Shape, rounds: int) -> None:
    batch = shape.batch()
    steps = {guide: svi_step(guide, shape, batch) for guide in GUIDES}
    report.times(race({**steps, "naive": naive_step(shape, batch)}, rounds))
    for guide in GUIDES:
        report.ratio(f"{guide}/naive", guide, "naive")


def measure_marginals(report: Report, shapes: Iterable[tuple[int, int, int]], rounds: int) -> None:
    """Value and gradient given emissions, against jitted JAX and autograd."""
    for N, T, K in shapes:
        log_weights, logits, action_logits, actions = inputs(N, T, K)
        parameters = log_weights, logits, emission_of(action_logits, actions).detach().requires_grad_()
        contenders = {"ours": with_gradient(ours, parameters), "autograd": with_gradient(autograd_loop, parameters)}
        others = jax_contenders(*parameters)
        contenders |= others
        values = {name: float(run()[0]) for name, run in contenders.items()}
        assert all(abs(value / values["ours"] - 1) < 1e-4 for value in values.values()), values
        where = f"{N}x{T}x{K}"
        report.times({f"marginal/{name}/{where}": value for name, value in race(contenders, rounds, warm=True).items()})
        for name in contenders:
            if name != "ours":
                report.ratio(f"marginal/{name}/{where}", f"marginal/ours/{where}", f"marginal/{name}/{where}")
        if not others:
            print(f"dynamax and jax: {MISSING}")


def measure_discrete_hmm(report: Report, shapes: Iterable[tuple[int, int, int]], rounds: int) -> None:
    """Value and gradient given action logits, against Pyro's ``DiscreteHMM``."""
    for N, T, K in shapes:
        *parameters, actions = inputs(N, T, K)

        def exact(log_weights, logits, action_logits, actions=actions):
            return ours(log_weights, logits, emission_of(action_logits, actions))

        def hmm(log_weights, logits, action_logits, actions=actions):
            return discrete_hmm(log_weights, logits, action_logits, actions)

        runs = {"exact": with_gradient(exact, tuple(parameters)), "discretehmm": with_gradient(hmm, tuple(parameters))}
        assert abs(float(runs["exact"]()[0]) / float(runs["discretehmm"]()[0]) - 1) < 1e-4
        where = f"T{T}" if K == 8 else f"T{T}/K{K}"
        report.times({f"{name}/marginal/{where}": value for name, value in race(runs, rounds).items()})
        report.ratio(f"exact/discretehmm/{where}", f"exact/marginal/{where}", f"discretehmm/marginal/{where}")


def measure_scaling(report: Report, rounds: int) -> None:
    """Steps for several T, K and batch sizes; the other dimensions are the paper's."""
    axes = {
        "T": [Shape(steps=T) for T in (100, 300, 1000)],
        "K": [Shape(options=K) for K in (2, 4, 8, 16, 32)],
        "N": [Shape(episodes=N) for N in (32, 64, 128)],
    }
    for axis, shapes in axes.items():
        for shape in shapes:
            size = {"T": shape.steps, "K": shape.options, "N": shape.episodes}[axis]
            batch = shape.batch()
            contenders = {f"{guide}/{axis}{size}": svi_step(guide, shape, batch) for guide in GUIDES}
            report.times(race(contenders, rounds))
            del batch, contenders
    for guide, (more, less) in itertools.product(GUIDES, (("T1000", "T100"), ("K32", "K4"), ("N128", "N32"))):
        report.ratio(f"{guide}/{more}/{less}", f"{guide}/{more}", f"{guide}/{less}")


def measure_rest(report: Report, shape: Shape, rounds: int) -> None:
    """A growth event and the preparation of batches, against a training step."""
    batch = shape.batch()
    growing, half = trainer("exact", shape, batch, grows=True), len(batch) // 2
    growing.step(batch)
    contenders = {
        "step": svi_step("exact", shape, batch),
        "grow": lambda: grow([growing.model, growing.guide], 1, growing.optimizer),
        "loading": lambda: list(batch.minibatches(half, torch.Generator())),
    }
    report.times(race(contenders, rounds))
    report.ratio("grow/step", "grow", "step")
    report.ratio("loading/step", "loading", "step")


def measure_memory(report: Report) -> None:
    for job in JOBS:
        report[f"megabytes/{job}"] = peak_megabytes(job)
    report.ratio("memory/exact/discretehmm/T1000", "exact/T1000", "discretehmm/T1000", "megabytes")
    for job in ("training/exact", "training/paper", "discovery"):
        peak = report[f"megabytes/{job}"]
        verdict = "yes" if peak < 2048 else "NO"
        print(f"{job}, 1000 trajectories of 1000 steps: peak {peak:.0f} MB   under 2048: {verdict}")


def profile(shape: Shape) -> None:
    """Prints the most expensive operations of a step."""
    batch = shape.batch()
    for guide in GUIDES:
        step = svi_step(guide, shape, batch)
        step()
        with torch.profiler.profile() as record:
            step()
        rows = sorted(record.key_averages(), key=lambda row: -row.self_cpu_time_total)
        total = sum(row.self_cpu_time_total for row in rows)
        print(f"\nwhere a step of {guide} goes")
        for row in rows[:10]:
            print(f"  {row.self_cpu_time_total / total:6.1%}  {row.count:6d} calls  {row.key[:60]}")


def plot(report: Report, path: Path) -> None:
    """Time of a step against T, K and batch size, on logarithmic axes with a line of slope one."""
    from pyro_options import viz

    titles = {"T": "steps in an episode", "K": "options", "N": "episodes in a batch"}
    with viz.style():
        figure, panels = viz.plt.subplots(1, 3, figsize=(viz.PAGE, 2.6), layout="constrained")
        for axis, panel in zip(titles, panels):
            for guide in GUIDES:
                prefix = f"seconds/{guide}/{axis}"
                found = {int(key[len(prefix) :]): value for key, value in report.items() if key.startswith(prefix)}
                sizes, seconds = zip(*sorted(found.items()))
                panel.loglog(sizes, seconds, "o-", label=guide)
            linear = [seconds[-1] * size / sizes[-1] for size in sizes]
            panel.loglog(sizes, linear, ":", color=viz.NEUTRAL, label="linear")
            panel.set(xlabel=titles[axis], xticks=sizes, xticklabels=sizes)
            panel.minorticks_off()
        panels[0].set_ylabel("seconds per SVI step")
        panels[0].legend()
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path)
        viz.plt.close(figure)
    print(f"saved {path}")


def quick() -> Report:
    """The same ratios on small shapes, in about a minute."""
    report, shape = Report(judge=False), Shape(32, 100)
    measure_steps(report, [shape], 7)
    measure_naive(report, Shape(32, 30), 3)
    measure_marginals(report, [(32, 100, 8)], 7)
    measure_discrete_hmm(report, [(32, 100, 8)], 5)
    measure_rest(report, shape, 5)
    return report


def full() -> Report:
    report, shape = Report(judge=True), Shape()
    sizes = (128, 300, 8), (128, 1000, 8), (128, 300, 32)
    measure_marginals(report, sizes, 25)
    measure_discrete_hmm(report, [(128, 100, 8), *sizes, (128, 300, 2)], 3)
    measure_steps(report, [shape, Shape(actions=18), Shape(varying=228)], 15)
    measure_rest(report, shape, 5)
    measure_scaling(report, 3)
    measure_memory(report)
    measure_naive(report, shape, 4)
    profile(shape)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small shapes, about a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers here")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads of torch and the kernels")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    warnings.filterwarnings("ignore", category=UserWarning)
    report = quick() if args.quick else full()
    report["threads"] = args.threads
    if args.json:
        write_results(args.json, dict(sorted(report.items())))
        if not args.quick:
            plot(report, args.json.with_name("scaling.png"))


if __name__ == "__main__":
    main()
