"""Lines through a cloud of points, and how many there are: a Dirichlet-process mixture of regressions.

Every point lies near one of several lines, and which one is not known. A component is the regression of y on x, so its
density depends on the row. Run it with::

    python examples/regressions.py
    python examples/regressions.py --noise 0.8           # lines that are harder to tell apart

It prints a table and writes ``results.json`` and ``regressions.png`` (the lines, K over training, and the posterior
over the number of lines in use) to ``--out``.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from pyro_options import viz
from pyro_options.experiments import write_results
from pyro_options.growth import Merge, Prune, SplitBirth, TrialRule, reweight
from pyro_options.guides import GrowableGEM, MixtureWeights
from pyro_options.handlers import GrowthMessenger
from pyro_options.infer import component_counts, train_growing
from pyro_options.models import DPRegressions, LinearExperts

#: slope and intercept of the true lines
LINES = ((2.0, 0.0), (-2.0, 1.0), (0.5, 3.0), (0.0, -3.0))


@dataclass(frozen=True)
class Args:
    """Fit lines to points."""

    num_rows: int = 500
    """a fifth of them to judge growth by"""
    noise: float = 0.4
    """standard deviation of y around its line"""
    initial_lines: int = 12
    """K at the start"""
    updates: int = 400
    every: int = 40
    """updates between growth checks"""
    seed: int = 0
    out: Path = Path("out/regressions")
    """folder for results"""


def make_model(num_lines: int) -> tuple[DPRegressions, MixtureWeights]:
    """The model and its guide, with equal weights for all lines at the start."""
    model = DPRegressions(LinearExperts(1, num_lines))
    guide = MixtureWeights(GrowableGEM(num_lines))
    reweight([guide], torch.zeros(num_lines))
    return model, guide


def make_rows(args: Args) -> tuple[torch.Tensor, torch.Tensor]:
    """Points ``(N, 2)`` and the line of each ``(N,)``."""
    generator = torch.Generator().manual_seed(args.seed)
    x = 4 * torch.rand(args.num_rows, generator=generator) - 2
    which = torch.randint(len(LINES), (args.num_rows,), generator=generator)
    slope, intercept = torch.tensor(LINES)[which].unbind(-1)
    y = slope * x + intercept + args.noise * torch.randn(args.num_rows, generator=generator)
    return torch.stack([x, y], -1), which


def figure(model, growth, sizes: list[int], counts, rows: torch.Tensor, path: Path) -> None:
    """Points coloured by line, K over training, and how many lines are in use."""
    experts = model.experts
    with viz.style():
        fig = viz.plt.figure(figsize=(viz.PAGE, 3.6), layout="constrained")
        axes = fig.subplot_mosaic([["lines", "growth"], ["lines", "counts"]], width_ratios=[1.5, 1])
        with torch.no_grad():
            labels = experts(rows[:, :-1]).log_prob(rows[:, -1:]).argmax(-1)
            ends = torch.tensor([[-2.0], [2.0]])
            lines = experts(ends).mean
        colors = [viz.option_color(int(k)) for k in labels]
        axes["lines"].scatter(rows[:, 0], rows[:, 1], s=7, c=colors, linewidths=0)
        for k in range(experts.num_components):
            axes["lines"].plot(ends[:, 0], lines[:, k], color=viz.option_color(k), linewidth=2)
        axes["lines"].set(xlabel="x", ylabel="y", title="Lines found")
        viz.growth_timeline(axes["growth"], sizes, target=len(LINES), events=growth.history)
        axes["growth"].set(xlabel="update", ylabel="lines K")
        viz.component_counts(axes["counts"], counts.probabilities, len(LINES))
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> dict:
    """Trains the mixture, prints the table and writes the files."""
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    rows, _ = make_rows(args)
    cut = len(rows) - len(rows) // 5
    torch.manual_seed(args.seed)
    model, guide = make_model(args.initial_lines)
    schedule = {"every": args.every, "settle": 3, "length": args.updates, "site": "y"}
    growth = GrowthMessenger([model, guide], TrialRule(), SplitBirth(halve=True), [Prune(), Merge()], **schedule)
    history = train_growing(model, guide, rows[:cut], growth, args.updates, held_out=rows[cut:])
    counts = component_counts(model, guide, rows, num_draws=100, min_share=0.01, site="y")
    found = torch.cat([model.experts.weight, model.experts.bias.unsqueeze(-1)], -1).detach()
    results = {
        "num_lines": len(LINES),
        "num_components": growth.num_components,
        "used_lines_mode": counts.mode,
        "largest_error_of_a_line": float(torch.cdist(torch.tensor(LINES), found).min(-1).values.max()),
    }
    write_results(args.out / "results.json", results)
    figure(model, growth, history.num_components, counts, rows, args.out / "regressions.png")
    for key, value in results.items():
        print(f"{key:<26}{value}")
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
