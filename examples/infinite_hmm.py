"""How many states does a signal have? An infinite hidden Markov model with sticky transitions.

A noisy signal in the plane moves through four states in a cycle and stays in each for a while. Training starts with ten
states; new ones are born, and the states that held-out sequences do not need are removed. Run it with::

    python examples/infinite_hmm.py
    python examples/infinite_hmm.py --noise 1.3          # states that overlap more

It prints a table and writes ``results.json`` and ``infinite_hmm.png`` (a sequence with its states, the transitions, K
over training) to ``--out``.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from pyro import distributions as dist
from torch import nn

from pyro_options import viz
from pyro_options.experiments import write_results
from pyro_options.growth import Growable, Merge, Prune, SplitBirth, TrialRule, reweight
from pyro_options.guides import GrowableHDP, MixtureWeights
from pyro_options.handlers import GrowthMessenger
from pyro_options.infer import train_growing
from pyro_options.models import HDP, InfiniteHMM
from pyro_options.skills import label_scores


@dataclass(frozen=True)
class Args:
    """Find the states of a signal."""

    num_states: int = 4
    """true number of states, unknown to the model"""
    num_sequences: int = 40
    """a quarter of them to judge growth by"""
    num_steps: int = 60
    """of each sequence"""
    noise: float = 1.0
    """standard deviation of the signal in a state; neighbouring states are 2.8 apart"""
    initial_states: int = 10
    """K at the start"""
    updates: int = 400
    every: int = 50
    """updates between growth checks"""
    seed: int = 0
    out: Path = Path("out/infinite_hmm")
    """folder for results"""


class Emissions(Growable, nn.Module):
    """A Gaussian in the plane for each state."""

    component_axes = {"loc": 0, "log_scale": 0}

    def __init__(self, num_components: int):
        super().__init__()
        self.loc = nn.Parameter(2 * torch.randn(num_components, 2))
        self.log_scale = nn.Parameter(torch.zeros(num_components, 2))

    def fresh(self, name, count):
        return torch.randn(count, 2)

    def forward(self):
        return dist.Normal(self.loc, torch.exp(self.log_scale)).to_event(1)


def make_model(num_states: int) -> tuple[InfiniteHMM, MixtureWeights]:
    """The model and its guide, with equal weights for all states at the start."""
    model = InfiniteHMM(Emissions(num_states), HDP(stickiness=1.0))
    guide = MixtureWeights(GrowableHDP(num_states))
    reweight([guide], torch.zeros(num_states))
    return model, guide


def make_sequences(args: Args) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences ``(N, T, 2)`` and their states ``(N, T)``: a cycle, left with probability 0.1 at each step."""
    generator = torch.Generator().manual_seed(args.seed)
    turn = 2 * math.pi * torch.arange(args.num_states) / args.num_states
    centers = 2 * torch.stack([turn.cos(), turn.sin()], -1)
    moves = torch.rand(args.num_sequences, args.num_steps, generator=generator) < 0.1
    first = torch.randint(args.num_states, (args.num_sequences, 1), generator=generator)
    states = (first + moves.cumsum(-1)) % args.num_states
    noise = torch.randn(*states.shape, 2, generator=generator)
    return centers[states] + args.noise * noise, states


def figure(args: Args, growth, sizes: list[int], rows: torch.Tensor, shown: tuple, path: Path) -> None:
    """A held-out sequence with its true and inferred states, the transitions, and K over training."""
    signal, true, found = shown
    with viz.style():
        fig = viz.plt.figure(figsize=(viz.PAGE, 3.4), layout="constrained")
        axes = fig.subplot_mosaic([["signal", "rows"], ["states", "growth"]], width_ratios=[1.6, 1])
        for d, name in enumerate(("x", "y")):
            axes["signal"].plot(signal[:, d].numpy(), color=viz.PALETTE[d], label=name)
        axes["signal"].set(title="A held-out sequence", xlim=(-0.5, len(signal) - 0.5))
        axes["signal"].legend(loc="upper right", ncols=2)
        lengths = torch.tensor([len(true)] * 2)
        viz.segmentation_strip(axes["states"], torch.stack([true, found]), lengths)
        axes["states"].set(yticks=[0, 1], yticklabels=["true", "found"], title="Its states", xlabel="step", ylabel="")
        viz.action_heatmap(axes["rows"], rows, "Transitions", "next state")
        axes["rows"].set(ylabel="state")
        viz.growth_timeline(axes["growth"], sizes, target=args.num_states, events=growth.history)
        axes["growth"].set(xlabel="update", ylabel="states K")
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> dict:
    """Trains the model, prints the table and writes the files."""
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    sequences, states = make_sequences(args)
    cut = len(sequences) - len(sequences) // 4
    torch.manual_seed(args.seed)
    model, guide = make_model(args.initial_states)
    schedule = {"every": args.every, "settle": 4, "length": args.updates, "site": "sequences"}
    # A merge is judged before the other states have adapted to it: training regains some nats that it costs.
    removals = [Prune(), Merge(tolerance=10.0)]
    growth = GrowthMessenger([model, guide], TrialRule(0.3), SplitBirth(halve=True), removals, **schedule)
    history = train_growing(model, guide, sequences[:cut], growth, args.updates, held_out=sequences[cut:])
    with torch.no_grad():
        log_weights = guide.weights.mean_log_weights()
        chain, values = model.chain(sequences[cut:], log_weights)
        found, held_out = chain.viterbi(values), chain.log_prob(values).mean() / args.num_steps
    scores = label_scores(found, states[cut:], torch.ones_like(found, dtype=torch.bool))
    results = {
        "num_states": args.num_states,
        "num_components": growth.num_components,
        "accuracy": scores.accuracy,
        "held_out_nats_per_step": float(held_out),
        "stickiness": float(torch.exp(model.transitions.log_stickiness.detach())),
    }
    write_results(args.out / "results.json", results)
    named = torch.tensor([scores.naming.get(k, k) for k in range(growth.num_components)])
    shown = sequences[cut], states[cut], named[found[0]]
    order = named.argsort()
    rows = torch.softmax(log_weights[1:], -1)[order][:, order]
    figure(args, growth, history.num_components, rows, shown, args.out / "infinite_hmm.png")
    for key, value in results.items():
        print(f"{key:<26}{value}")
    return results


if __name__ == "__main__":
    main(tyro.cli(Args))
