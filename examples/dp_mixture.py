"""Cluster points with an unknown number of clusters: a Dirichlet-process Gaussian mixture, grown from one component.

Run it with::

    python examples/dp_mixture.py
    python examples/dp_mixture.py --num-clusters 20 --covariance diagonal

It prints a table and writes ``results.json`` and ``dp_mixture.png`` (the clusters, K over training, and the posterior
over the number of components in use) to ``--out``.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import tyro

from pyro_options import viz
from pyro_options.experiments import write_results
from pyro_options.guides import GammaConcentration, GrowableGEM, MixtureWeights
from pyro_options.infer import MixtureConfig, MixtureTrainer, component_counts
from pyro_options.mixtures import GaussianComponents
from pyro_options.models import GEM, DPMixture


@dataclass(frozen=True)
class Args:
    """Cluster points in the plane."""

    num_clusters: int = 8
    """true number of clusters, unknown to the model"""
    num_rows: int = 800
    covariance: Literal["full", "diagonal"] = "full"
    discount: float = 0.0
    """of the Pitman-Yor prior; 0 is a Dirichlet process"""
    seed: int = 0
    patience: int = 4
    """growth ends after this many refused births in a row"""
    out: Path = Path("out/dp_mixture")
    """folder for results"""


def make_clusters(num_clusters: int, num_rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Elongated clusters with centres on a golden-angle spiral: rows ``(N, 2)`` and labels ``(N,)``."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(num_clusters, (num_rows,), generator=generator)
    turn = math.pi * (3 - math.sqrt(5)) * torch.arange(num_clusters)
    radius = 4 * torch.arange(1, num_clusters + 1).sqrt()
    centres = torch.stack([radius * turn.cos(), radius * turn.sin()], -1)
    angles = torch.rand(num_clusters, generator=generator) * math.pi
    noise = torch.randn(num_rows, 2, generator=generator) * torch.tensor([1.2, 0.4])
    c, s = angles[labels].cos(), angles[labels].sin()
    rotated = torch.stack([c * noise[:, 0] - s * noise[:, 1], s * noise[:, 0] + c * noise[:, 1]], -1)
    return centres[labels] + rotated, labels


def figure(trainer: MixtureTrainer, counts, truth: int, path: Path) -> None:
    model, log_weights = trainer.model, trainer.guide.weights.mean_log_weights().detach()
    labels = model.labels(trainer.rows, log_weights)
    history = trainer.history
    with viz.style():
        fig = viz.plt.figure(figsize=(viz.PAGE, 4.2), layout="constrained")
        axes = fig.subplot_mosaic([["clusters", "growth"], ["clusters", "counts"]], width_ratios=[1.5, 1])
        components = model.components
        viz.clusters(axes["clusters"], trainer.rows, labels, components.means(), components.covariances())
        axes["clusters"].set_title("Clusters found, from one component")
        events = trainer.growth.history
        viz.growth_timeline(axes["growth"], history.num_components, target=truth, events=events)
        axes["growth"].set(xlabel="step of training", ylabel="components K")
        viz.component_counts(axes["counts"], counts.probabilities, truth)
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> dict:
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    rows, truth = make_clusters(args.num_clusters, args.num_rows, args.seed)
    prior = GEM(discount=args.discount, alpha_prior=(1.0, 1.0))
    model = DPMixture(GaussianComponents(rows, covariance=args.covariance), prior)
    guide = MixtureWeights(GrowableGEM(1, concentration=GammaConcentration()))
    trainer = MixtureTrainer(model, guide, rows, MixtureConfig(patience=args.patience, seed=args.seed))
    history = trainer.run()
    log_weights = guide.weights.mean_log_weights().detach()
    counts = component_counts(model, guide, rows, num_draws=200, min_points=2)
    labels = model.labels(rows, log_weights)
    alpha = guide.weights.concentration.distribution()
    results = {
        "num_clusters": args.num_clusters,
        "num_components": model.num_components,
        "used_components_mode": counts.mode,
        "used_components_interval": counts.interval(),
        "pure_clusters": sum(len(labels[truth == k].unique()) == 1 for k in range(args.num_clusters)),
        "log_likelihood": float(model.predictive_log_prob(rows, log_weights).mean()),
        "alpha_mean": alpha.mean.item(),
        "alpha_sd": alpha.stddev.item(),
        "steps": len(history.elbo),
        "growth_steps": history.growth_steps,
        "seconds": history.seconds,
    }
    write_results(args.out / "results.json", results)
    figure(trainer, counts, args.num_clusters, args.out / "dp_mixture.png")
    for key, value in results.items():
        print(f"{key:<26}{value}")
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
