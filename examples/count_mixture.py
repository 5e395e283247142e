"""Cluster documents with an unknown number of topics: a Pitman-Yor mixture over word counts, grown from one component.

The vocabulary is a 5 × 5 grid, and the words of a document come from one row or column of it (a bar). Some bars are far
rarer than others. Run it with::

    python examples/count_mixture.py
    python examples/count_mixture.py --discount 0        # a Dirichlet process
    python examples/count_mixture.py --num-words 10      # short documents

It prints a table and writes ``results.json`` and ``count_mixture.png`` (the components that were found, K over
training) to ``--out``.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from pyro_options import viz
from pyro_options.experiments import write_results
from pyro_options.guides import GrowableGEM, MixtureWeights
from pyro_options.infer import MixtureConfig, MixtureTrainer, component_counts
from pyro_options.mixtures import CountComponents
from pyro_options.models import GEM, DPMixture

SIDE = 5


@dataclass(frozen=True)
class Args:
    """Cluster documents by their words."""

    num_documents: int = 600
    num_words: int = 40
    """words per document"""
    noise: float = 0.1
    """probability that a word is uniform over the grid"""
    discount: float = 0.25
    """of the Pitman-Yor prior; 0 is a Dirichlet process"""
    seed: int = 0
    patience: int = 4
    """growth ends after this many refused births in a row"""
    out: Path = Path("out/count_mixture")
    """folder for results"""


def make_documents(args: Args) -> tuple[torch.Tensor, torch.Tensor]:
    """Word counts ``(N, 25)`` and the bar of each document ``(N,)``; bar k has probability ∝ ``1 / (k + 1)``."""
    generator = torch.Generator().manual_seed(args.seed)
    bars = torch.zeros(2 * SIDE, SIDE, SIDE)
    for i in range(SIDE):
        bars[i, i], bars[SIDE + i, :, i] = 1.0, 1.0
    words = (1 - args.noise) * bars.flatten(1) / SIDE + args.noise / SIDE**2
    frequency = 1 / torch.arange(1.0, len(bars) + 1)
    kinds = torch.multinomial(frequency, args.num_documents, replacement=True, generator=generator)
    drawn = torch.multinomial(words[kinds], args.num_words, replacement=True, generator=generator)
    return torch.zeros(args.num_documents, SIDE**2).scatter_add_(1, drawn, torch.ones(drawn.shape)), kinds


def figure(trainer: MixtureTrainer, shares: torch.Tensor, truth: int, path: Path) -> None:
    """Word probabilities of every component, the most frequent first, and K over training."""
    words = trainer.model.components.predictive().concentration.detach()
    words = (words / words.sum(-1, keepdim=True)).unflatten(-1, (SIDE, SIDE))
    order = shares.argsort(descending=True)
    columns = 5
    with viz.style():
        fig = viz.plt.figure(figsize=(viz.PAGE, 2.6), layout="constrained")
        left, right = fig.subfigures(1, 2)
        panels = left.subplots(-(-len(order) // columns), columns, squeeze=False).flatten()
        for panel in panels:
            panel.set_axis_off()
        for panel, k in zip(panels, order):
            panel.imshow(words[k].numpy(), cmap="cividis", vmin=0, vmax=0.25)
            panel.set_title(f"{100 * shares[k]:.1f} %", fontsize="small")
        left.suptitle("Each kind: words, share")
        axis = right.subplots()
        events = trainer.growth.history
        viz.growth_timeline(axis, trainer.history.num_components, target=truth, events=events)
        axis.set(xlabel="step of training", ylabel="components K")
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> dict:
    """Trains the mixture, prints the table and writes the files."""
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    rows, kinds = make_documents(args)
    model = DPMixture(CountComponents(rows.shape[1]), GEM(discount=args.discount))
    guide = MixtureWeights(GrowableGEM(1))
    trainer = MixtureTrainer(model, guide, rows, MixtureConfig(patience=args.patience, seed=args.seed))
    history = trainer.run()
    labels = model.labels(rows, guide.weights.mean_log_weights().detach())
    counts = component_counts(model, guide, rows, num_draws=200, min_points=2)
    present = kinds.unique()
    results = {
        "kinds": len(present),
        "num_components": model.num_components,
        "used_components_mode": counts.mode,
        "used_components_interval": counts.interval(),
        "whole_kinds": sum(len(labels[kinds == k].unique()) == 1 for k in present),
        "rarest_kind": int(torch.bincount(kinds)[present].min()),
        "steps": len(history.elbo),
        "growth_steps": history.growth_steps,
        "seconds": history.seconds,
    }
    write_results(args.out / "results.json", results)
    shares = torch.bincount(labels, minlength=model.num_components) / len(rows)
    figure(trainer, shares, len(present), args.out / "count_mixture.png")
    for key, value in results.items():
        print(f"{key:<26}{value}")
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
