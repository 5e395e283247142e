"""Skills that follow each other: options whose successor depends on the option that has just ended.

Demonstrations are sampled from five known options in a cycle. ``model="sticky-options"`` gives every option a row of
transitions, with a hierarchical Dirichlet process as their prior; the paper's high-level policy η has no memory. Both
are evaluated on held-out episodes, and once more on demonstrations whose options do not depend on each other. Run
it with::

    python examples/sticky_options.py
    python examples/sticky_options.py --order 0.6        # a looser cycle

It prints a table and writes ``results.json`` and ``sticky_options.png`` to ``--out``.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from pyro_options import Skills, discover, viz
from pyro_options.data import Synthetic, synthetic_options
from pyro_options.experiments import write_results
from pyro_options.skills import label_scores


@dataclass(frozen=True)
class Args:
    """Compare options with and without memory."""

    num_options: int = 5
    """true number of options, unknown to the models"""
    num_episodes: int = 200
    """to train on; half as many are held out"""
    order: float = 0.9
    """probability of the next option in the cycle; the others share the rest"""
    epochs: int = 30
    initial_options: int = 8
    """K at the start"""
    seed: int = 0
    out: Path = Path("out/sticky_options")
    """folder for results"""


def make_demonstrations(args: Args, ordered: bool) -> Synthetic:
    """Demonstrations of options that follow each other in a cycle, or in any order."""
    K = args.num_options
    transitions = torch.full((K, K), (1 - args.order) / max(1, K - 1))
    transitions[torch.arange(K), (torch.arange(K) + 1) % K] = args.order
    settings = {"lengths": (20, 60), "mean_duration": 5.0, "separation": 1.5, "num_actions": K + 1, "seed": args.seed}
    count = args.num_episodes + args.num_episodes // 2
    return synthetic_options(K, count, transitions=transitions if ordered else None, **settings)


def train(args: Args, model: str, truth: Synthetic) -> tuple[Skills, dict]:
    """Skills of one model, and their scores on held-out episodes."""
    data, cut = truth.trajectories, args.num_episodes
    settings = {"epochs": args.epochs, "initial_options": args.initial_options, "seed": args.seed}
    skills = discover(data[:cut], model=model, guide="exact", device="cpu", progress=False, trust=False, **settings)
    held, true = data[cut:], truth.options[cut:]
    found = skills.segment(held)
    return skills, {
        "held_out_nats_per_step": found.log_likelihood_per_step,
        "held_out_nats_per_episode": found.log_likelihood.tolist(),
        "used_options": skills.used_options,
        "accuracy": label_scores(found.options, true, held.mask).accuracy,
    }


def rows_in_true_order(skills: Skills, truth: Synthetic) -> torch.Tensor:
    """Transition probabilities ``(K, K)``, with the options in the order of the true ones that they match."""
    data = truth.trajectories
    naming = label_scores(skills.segment(data).options, truth.options, data.mask).naming
    order = sorted(range(skills.num_options), key=lambda k: naming.get(k, truth.options.max() + 1 + k))
    return torch.softmax(skills.log_rows, -1)[order][:, order]


def figure(args: Args, rows: torch.Tensor, results: dict, path: Path) -> None:
    """The transitions that were found, and the held-out gain from memory on both kinds of data."""
    with viz.style():
        fig, axes = viz.plt.subplots(1, 2, figsize=(viz.PAGE, 2.6), layout="constrained", width_ratios=[1.2, 1])
        viz.action_heatmap(axes[0], rows, "Transitions between the options found", "next option")
        axes[0].set(ylabel="option that ended")
        gains = [results[kind]["gain_per_step"] for kind in results]
        errors = [2 * results[kind]["standard_error"] for kind in results]
        bars = axes[1].bar(list(results), gains, yerr=errors, color=[viz.PALETTE[0], viz.NEUTRAL], width=0.6, capsize=4)
        axes[1].bar_label(bars, fmt="%.3f", padding=4)
        axes[1].axhline(0, color="0.3", linewidth=1)
        axes[1].margins(y=0.25)
        axes[1].set(ylabel="held-out nats per step, ± 2 s.e.", title="Gain from memory")
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> dict:
    """Trains both models on both kinds of data, prints the table and writes the files."""
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    results: dict = {}
    for kind, ordered in (("a cycle", True), ("no order", False)):
        truth = make_demonstrations(args, ordered)
        _, without = train(args, "options", truth)
        sticky, memory = train(args, "sticky-options", truth)
        if ordered:
            rows = rows_in_true_order(sticky.used(), truth)
        steps = truth.trajectories[args.num_episodes :].lengths
        scores = (torch.tensor(one.pop("held_out_nats_per_episode")) for one in (memory, without))
        difference = torch.sub(*scores) / steps.double().mean()
        gain, error = float(difference.mean()), float(difference.std()) / len(difference) ** 0.5
        results[kind] = {"memory": memory, "no memory": without, "gain_per_step": gain, "standard_error": error}
        print(f"{kind:<10} gain {gain:.4f} ± {error:.4f} nats per step: {memory} against {without}")
    write_results(args.out / "results.json", results)
    figure(args, rows, results, args.out / "sticky_options.png")
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
