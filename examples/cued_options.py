"""State-dependent against state-independent choice of options, on demonstrations with cues.

The first state of every segment shows a cue, which determines the action of the whole segment; later states do not show
it, so the option must carry it. Both models learn one option per cue, but only η(s) can predict which option starts.
Run it with::

    python examples/cued_options.py

It prints a table and writes ``results.json`` and ``cued_options.png`` to ``--out``.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro

from pyro_options import viz
from pyro_options.data import Trajectories
from pyro_options.experiments import write_results
from pyro_options.guides import Exact, GrowableGEM
from pyro_options.infer import TrainConfig, Trainer
from pyro_options.models import OptionHMM, StateOptionHMM
from pyro_options.options import CategoricalPolicy, Termination
from pyro_options.skills import to_skills


@dataclass(frozen=True)
class Args:
    """Compare high-level policies on cued demonstrations."""

    num_cues: int = 4
    num_episodes: int = 200
    num_segments: int = 3
    segment_length: int = 4
    epochs: int = 120
    learning_rate: float = 0.03
    seed: int = 0
    out: Path = Path("out/cued_options")
    """folder for results"""


def demonstrations(args: Args, num_episodes: int, seed: int) -> Trajectories:
    """States: the cue, one-hot, at the first step of a segment, else zeros; and a constant 1. Actions: the cue."""
    generator = torch.Generator().manual_seed(seed)
    cues = torch.randint(args.num_cues, (num_episodes, args.num_segments), generator=generator)
    actions = cues.repeat_interleave(args.segment_length, 1)
    states = torch.zeros(*actions.shape, args.num_cues + 1)
    states[..., -1] = 1.0
    starts = torch.arange(args.num_segments) * args.segment_length
    states[:, starts] = states[:, starts].scatter(-1, cues.unsqueeze(-1), 1.0)
    return Trajectories(states, actions, torch.full((num_episodes,), actions.shape[1]), args.num_cues)


def train(args: Args, state_dependent: bool) -> tuple[Trainer, dict]:
    data = demonstrations(args, args.num_episodes, args.seed)
    held_out = demonstrations(args, 100, args.seed + 10_000)
    torch.manual_seed(args.seed)
    D, K = data.state_dim, args.num_cues
    policy, termination = CategoricalPolicy(D, K, args.num_cues), Termination(D, K)
    model = StateOptionHMM(policy, termination, D) if state_dependent else OptionHMM(policy, termination)
    guide = Exact(GrowableGEM(K))
    config = TrainConfig(
        epochs=args.epochs, batch_size=100, learning_rate=args.learning_rate, seed=args.seed, progress=False
    )
    start = time.perf_counter()
    trainer = Trainer(model, guide, data, config)
    trainer.run()
    found = to_skills(model, guide).segment(held_out)
    return trainer, {
        "held_out_nats_per_segment": found.log_likelihood_per_step * args.segment_length,
        "used_options": found.used_options,
        "seconds": time.perf_counter() - start,
    }


@torch.no_grad()
def choices(trainer: Trainer, num_cues: int) -> torch.Tensor:
    """Probability of each option in a state with each cue, ``(K, cues)``, normalized over the K options."""
    model, log_weights = trainer.model, trainer.guide.weights.mean_log_weights()
    states = torch.cat([torch.eye(num_cues), torch.ones(num_cues, 1)], -1)
    if isinstance(model, StateOptionHMM):
        log_weights = model.state_log_weights(log_weights, states)
    return torch.softmax(log_weights, -1).expand(num_cues, -1).T


def figure(args: Args, trainers: dict, results: dict, path: Path) -> None:
    with viz.style():
        fig, axes = viz.plt.subplots(1, 3, figsize=(viz.PAGE, 2.4), layout="constrained", width_ratios=[1.2, 1.2, 1])
        for ax, (name, trainer) in zip(axes, trainers.items()):
            viz.action_heatmap(ax, choices(trainer, args.num_cues), f"Who starts, with {name}", "cue shown")
        values = [results[name]["held_out_nats_per_segment"] for name in trainers]
        bars = axes[2].bar(list(trainers), values, color=[viz.NEUTRAL, viz.PALETTE[0]], width=0.6)
        axes[2].bar_label(bars, fmt="%.2f", padding=2, label_type="center", color="white")
        blind = -math.log(args.num_cues)
        axes[2].axhline(blind, color="0.3", linestyle="--", linewidth=1, label="guessing the option")
        axes[2].legend(loc="upper left", bbox_to_anchor=(-0.1, -0.14))
        axes[2].set(ylabel="held-out nats per segment", title="Likelihood", ylim=(min([*values, blind]) * 1.2, 0.1))
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> dict:
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    trainers, results = {}, {}
    for name, state_dependent in (("plain η", False), ("η(s)", True)):
        trainers[name], results[name] = train(args, state_dependent)
        print(name, results[name])
    results["guessing"] = -math.log(args.num_cues)
    write_results(args.out / "results.json", results)
    figure(args, trainers, results, args.out / "cued_options.png")
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
