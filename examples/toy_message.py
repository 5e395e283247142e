"""Solve the paper's proof-of-concept task with an unknown number of options.

An agent observes a message at t = 0 and must emit it at t = 4; the expert emits it at every step. Reproducing the
expert takes one option per message. Run it with::

    python examples/toy_message.py
    python examples/toy_message.py --num-messages 8 --guide exact
    python examples/toy_message.py --guide paper               # the encoder of the paper
    python examples/toy_message.py --preset paper             # the settings of the paper, all of them
    python examples/toy_message.py --num-options 4            # fixed K
    python examples/toy_message.py --resume                   # resume after Ctrl-C or a crash

It trains twice: :func:`by_hand` spells out model, guide, SVI and growth in Pyro, :func:`in_one_call` uses ``discover``.
It prints a table and writes ``results.json``, ``config.json``, ``toy_message.png`` and ``report.html`` (an interactive
report of the options and some held-out episodes) to ``--out``. ``examples/message_sweep.py`` has the ablations.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyro
import torch
import tyro
from pyro import poutine
from pyro.infer import SVI, TraceGraph_ELBO
from pyro.optim import ClippedAdam
from studies.message_run import MessageRun

from pyro_options import Skills, discover, viz
from pyro_options.data import Trajectories
from pyro_options.envs import final_action_probabilities, message_demonstrations, message_success
from pyro_options.experiments import write_results
from pyro_options.growth import DataBirth, EvidenceRule, GrowthEvent, Prune
from pyro_options.guides import Exact, GrowableGEM, Relaxed, Structured
from pyro_options.handlers import EntropyMessenger, GrowthMessenger, TemperMessenger, adapt, collapse
from pyro_options.models import OptionHMM
from pyro_options.options import CategoricalPolicy, MessageEncoder, PathEncoder, Termination
from pyro_options.persistence import explained_interrupts

Guide = Literal["relaxed", "relaxed-marginal", "exact", "paper", "score-function", "straight-through"]

#: guides that :func:`by_hand` spells out
BY_HAND = ("relaxed", "exact", "paper")


def by_hand(data: Trajectories, guide_name: str = "relaxed", epochs: int = 60, seed: int = 0) -> OptionHMM:
    """The whole architecture in Pyro: model, guide, SVI with TraceGraph_ELBO, and a growth handler; K grows from 1."""
    pyro.clear_param_store()
    pyro.set_rng_seed(seed)
    S, A = data.state_dim, data.action_dim

    # p: options with a GEM prior over the weights of the next option
    model = OptionHMM(CategoricalPolicy(S, 1, A, hidden=(16, 16)), Termination(S, 1, hidden=(16, 16)), prior="gem")

    # q: Kumaraswamy sticks, and paths from an autoregressive encoder or summed out exactly
    sticks = GrowableGEM(1)
    guide = {
        "relaxed": lambda: Structured(sticks, MessageEncoder(S + A, 1), model.evidence),
        "exact": lambda: Exact(sticks),
        "paper": lambda: Relaxed(sticks, PathEncoder(S + A, 1)),
    }[guide_name]()

    # handlers: sum or average out what the guide leaves out, reward even usage, anneal the relaxation, grow K
    adapted = adapt(model, guide)
    evenness, cooling = EntropyMessenger(5.0, site="actions"), TemperMessenger(1.0)
    growth = GrowthMessenger(
        [model, guide], EvidenceRule(), DataBirth(), [Prune()], every=40, patience=8, site="actions"
    )

    optimizer = ClippedAdam(lambda name: {"lr": 5e-2 if "weights" in name else 5e-3})
    svi = SVI(evenness(adapted), cooling(guide), optimizer, TraceGraph_ELBO())
    shuffle, step = torch.Generator().manual_seed(seed), 0
    for epoch in range(epochs):
        evenness.weight, cooling.temperature = 5.0 * 0.995**epoch, 0.995**epoch
        for batch in data.minibatches(128, shuffle):
            with poutine.scale(scale=1 / batch.population):
                svi.step(batch)
            step += 1
        if growth.due(step):
            with torch.no_grad(), growth:  # observe how each option explains the data
                poutine.replay(adapted, poutine.trace(guide).get_trace(data))(data)
            growth.step(optimizer, step, collapse(model), data, sticks.mean_log_weights().detach())  # decide, resize
    return model


def in_one_call(args: "Args", **saving: Any) -> tuple[Skills, dict[str, Any]]:
    """The same with ``discover``, which also validates its input, saves checkpoints and resumes."""
    run = args.message_run()
    skills = discover(run.demonstrations(), **run.settings(), trust=False, **saving)
    return skills, run.results(skills)


@dataclass(frozen=True)
class Args:
    """Discover options in the message task."""

    num_messages: int = 6
    """size of the vocabulary"""
    guide: Guide = "relaxed"
    """posterior over paths"""
    preset: Literal["paper"] | None = None
    """paper: growth, guide and training as in the paper, for 500 epochs; by default our own settings, for 100 epochs"""
    seed: int = 0
    """of data, initial values and training"""
    epochs: int | None = None
    """passes over the demonstrations; by default those of the settings"""
    num_options: int | None = None
    """fix K instead of growing it"""
    out: Path = Path("out/toy_message")
    """folder for results"""
    device: str = "auto"
    """cpu, cuda or auto"""
    progress: bool = True
    """show a progress bar"""
    resume: bool = False
    """resume the interrupted training in --out"""

    def message_run(self) -> MessageRun:
        """The settings of ``discover`` and of the evaluation."""
        names = ("num_messages", "guide", "seed", "preset", "num_options", "device", "progress")
        epochs = 100 if self.epochs is None and self.preset is None else self.epochs
        return MessageRun(**{name: getattr(self, name) for name in names}, epochs=epochs)


def figure(args: Args, skills: Skills, path: Path) -> None:
    """Growth, usage, final action probabilities of each option, and some segmented trajectories."""
    shown, made = args.message_run().held_out(), skills.metadata
    found = skills.segment(shown)
    first = torch.tensor([int((shown.actions[:, 0] == m).nonzero()[0]) for m in shown.actions[:, 0].unique()])[:10]
    sizes = made["history"]["num_options"]
    with viz.style():
        fig, axes = viz.plt.subplots(2, 2, figsize=(viz.PAGE, 5.6), layout="constrained")
        viz.growth_timeline(
            axes[0, 0],
            sizes,
            target=args.num_messages,
            events=[GrowthEvent.from_dict(event) for event in made["growth"]],
            updates_per_epoch=made["updates"] / len(sizes),
        )
        viz.usage_bars(axes[0, 1], found.usage())
        probabilities = final_action_probabilities(skills.policy)
        viz.action_heatmap(axes[1, 0], probabilities, "What each option says at t = 4", "message")
        viz.segmentation_strip(axes[1, 1], found.options[first], shown.lengths[first], shown.actions[first])
        axes[1, 1].set_title("Segmentation (number: action)")
        fig.suptitle(f"{args.num_messages} messages, {args.guide} guide, seed {args.seed}")
        fig.savefig(path)
        viz.plt.close(fig)


def main(args: Args) -> dict:
    """Trains by hand and in one call, prints the results and writes all files."""
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "config.json").write_text(json.dumps(asdict(args) | {"out": str(args.out)}, indent=2) + "\n")
    ours = args.num_options is None and args.preset is None
    if ours and args.guide in BY_HAND and not args.resume:
        torch.set_num_threads(1)
        data = message_demonstrations(args.num_messages, 1000, args.seed)
        model = by_hand(data, args.guide, min(args.epochs or 60, 60), args.seed)
        solved, _ = message_success(final_action_probabilities(model.policy))
        print(f"by hand: {model.num_options} options, {'solved' if solved else 'not solved'}")
    skills, results = in_one_call(args, checkpoint=args.out / "training.safetensors", resume=args.resume)
    write_results(args.out / "results.json", results)
    figure(args, skills, args.out / "toy_message.png")
    viz.write_report(
        args.out / "report.html",
        skills,
        args.message_run().held_out(),
        title=f"{args.num_messages} messages, {args.guide} guide, seed {args.seed}",
        figures={"worst message probability": results["min_message_probability"], "messages": args.num_messages},
        state_names=("time", "message"),
    )
    rows = {key: value for key, value in results.items() if key != "usage"}
    width = max(map(len, rows))
    for key, value in rows.items():
        print(f"{key:<{width}}  {f'{value:.4g}' if isinstance(value, float) else value}")
    print(f"\nwrote results.json, toy_message.png and report.html to {args.out}")
    return results


if __name__ == "__main__":
    with explained_interrupts():
        main(tyro.cli(Args))
