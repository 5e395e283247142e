"""Solve the paper's proof-of-concept task without being told how many options there are.

An agent is told a message at t = 0 and must repeat it at t = 4; the expert says it all along. Recovering the expert
takes one option per message. Run it with::

    python examples/toy_message.py
    python examples/toy_message.py --num-messages 8 --guide exact
    python examples/toy_message.py --num-options 4            # fixed K
    python examples/toy_message.py --resume                   # go on after Ctrl-C, or a crash

It prints a table and writes ``results.json``, ``config.json``, ``toy_message.png`` and ``report.html``, the options and
some held-out episodes to look at in a browser, to ``--out``.
"""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
import tyro

from pyro_options import viz
from pyro_options.discovery import TRAIN_DEFAULTS, Method, MethodConfig, assemble, options_in_use, skills_of
from pyro_options.envs import final_action_probabilities, message_demonstrations, message_success
from pyro_options.infer import Exponential, TrainConfig, Trainer, set_seed
from pyro_options.persistence import Checkpoint, explained_interrupts
from pyro_options.skills import to_skills


@dataclass(frozen=True)
class Args:
    """Discover options in the message task."""

    num_messages: int = 6
    """size of the vocabulary"""
    guide: Literal["relaxed", "exact", "score-function", "straight-through"] = "relaxed"
    """posterior over paths"""
    seed: int = 0
    """of data, initial values and training"""
    epochs: int | None = None
    """passes over the demonstrations; by default 100"""
    out: Path = Path("out/toy_message")
    """folder for results"""
    device: str = "auto"
    """cpu, cuda or auto"""
    num_options: int | None = None
    """fix K instead of growing it"""
    rule: Literal["evidence", "usage", "posterior-usage"] = "evidence"
    """when to grow: evidence keeps what explains other data better; usage is the paper's"""
    delta: float = 0.5
    """for the usage rules: grow unless some option is used by less than delta / K of the steps"""
    birth: Literal["random", "split", "data"] | None = None
    """how an option starts: data, the default, fits the trajectories explained worst; split, the default of the usage
    rules, copies the most used option; random is the paper's"""
    removals: tuple[Literal["prune", "merge"], ...] | None = None
    """how an option goes; by default prune, and not at all with the usage rules"""
    check_every: int | None = None
    """optimizer steps between growth checks; by default 40, and 80 for the usage rules"""
    entropy_weight: float | None = None
    """of the entropy regularizer at the start; by default 5, and 0 for the exact guide"""
    entropy_rate: float = 0.995
    """factor of the entropy weight per epoch; 1 keeps it"""
    entropy_per: Literal["batch", "trajectory"] = "batch"
    """whose use of options should be even"""
    temperature: float = 1.0
    """of the relaxation at the start"""
    temperature_rate: float = 0.995
    """factor of the temperature per epoch"""
    independent_heads: bool = False
    """draw h_t independently of b_t, as the paper's encoder does"""
    point: bool = False
    """a point estimate of the weights instead of a posterior"""
    alpha: float = 1.0
    """concentration of the prior over weights at the start; it is learned"""
    learning_rate: float = 5e-3
    """of the networks"""
    weights_learning_rate: float = 5e-2
    """of the posterior over the weights"""
    num_episodes: int = 1000
    batch_size: int = 128
    progress: bool = True
    """show a progress bar"""
    resume: bool = False
    """go on with the training that was stopped in --out"""


def train(args: Args, save: bool = False) -> tuple[Trainer, dict]:
    """Trains and evaluates; returns the trainer and what ``results.json`` holds.

    :param save: keep checkpoints in ``args.out``
    """
    torch.set_num_threads(1)  # a second thread has nothing to do with tensors this small, and waits loudly
    data = message_demonstrations(args.num_messages, args.num_episodes, args.seed)
    held_out = message_demonstrations(args.num_messages, 200, args.seed + 10_000)
    defaults = TRAIN_DEFAULTS[args.guide]
    set_seed(args.seed)
    method = assemble(
        data,
        MethodConfig(
            guide=args.guide,
            num_options=args.num_options,
            rule=args.rule,
            delta=args.delta,
            birth=args.birth or "",
            removals=args.removals,
            check_every=args.check_every or 0,
            coupled=not args.independent_heads,
            point=args.point,
            alpha=args.alpha,
        ),
    )
    config = TrainConfig(
        epochs=defaults.epochs if args.epochs is None else args.epochs,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        weights_learning_rate=args.weights_learning_rate,
        temperature=Exponential(args.temperature, args.temperature_rate, floor=0.05),
        entropy_weight=Exponential(
            defaults.entropy_weight if args.entropy_weight is None else args.entropy_weight, args.entropy_rate
        ),
        entropy_per=args.entropy_per,
        seed=args.seed,
        device=args.device,
        progress=args.progress,
    )
    checkpoint = Checkpoint(args.out / "training.safetensors", args.resume) if save else None
    trainer = Trainer(method.model, method.guide, data, config, method.growth, checkpoint=checkpoint)
    history = trainer.run()
    success, worst = message_success(final_action_probabilities(method.model.policy))
    found = to_skills(method.model, method.guide).segment(held_out)
    return trainer, {
        "num_messages": args.num_messages,
        "guide": args.guide,
        "seed": args.seed,
        "num_options": method.model.num_options,
        "used_options": found.used_options,
        "options_in_use": options_in_use(trainer, held_out, episodes=len(held_out)).to_dict(),
        "success": success,
        "min_message_probability": worst,
        "elbo": history.elbo[-1],
        "exact_log_likelihood": found.log_likelihood_per_step,
        "best_possible_log_likelihood": -math.log(args.num_messages) / 5,
        "epochs": config.epochs,
        "seconds": history.seconds,
        "growth_epochs": history.growth_epochs,
        "removal_epochs": history.removal_epochs,
        "usage": found.usage().tolist(),
    }


def figure(args: Args, trainer: Trainer, path: Path) -> None:
    """Growth, usage, what each option says at the end, and a few segmented trajectories."""
    shown = message_demonstrations(args.num_messages, 200, args.seed + 10_000)
    found = to_skills(trainer.model, trainer.guide).segment(shown)
    first = torch.tensor([int((shown.actions[:, 0] == m).nonzero()[0]) for m in shown.actions[:, 0].unique()])[:10]
    with viz.style():
        fig, axes = viz.plt.subplots(2, 2, figsize=(viz.PAGE, 5.6), layout="constrained")
        history = trainer.history
        events = [] if trainer.growth is None else trainer.growth.history
        viz.growth_timeline(
            axes[0, 0],
            history.num_options,
            target=args.num_messages,
            events=events,
            updates_per_epoch=trainer.num_steps / len(history.num_options),
        )
        viz.usage_bars(axes[0, 1], found.usage())
        probabilities = final_action_probabilities(trainer.model.policy)
        viz.action_heatmap(axes[1, 0], probabilities, "What each option says at t = 4", "message")
        viz.segmentation_strip(axes[1, 1], found.options[first], shown.lengths[first], shown.actions[first])
        axes[1, 1].set_title("Segmentation (number: action)")
        fig.suptitle(f"{args.num_messages} messages, {args.guide} guide, seed {args.seed}")
        fig.savefig(path)
        viz.plt.close(fig)


def report(args: Args, trainer: Trainer, results: dict, path: Path) -> None:
    """The options on held-out episodes, to look at in a browser."""
    shown = message_demonstrations(args.num_messages, 200, args.seed + 10_000)
    growth = [] if trainer.growth is None else [event.to_dict() for event in trainer.growth.history]
    made = {"history": trainer.history.to_dict(), "growth": growth, "updates": trainer.num_steps}
    skills = skills_of(Method(trainer.model, trainer.guide, trainer.growth), shown, metadata=made)
    figures = {"worst message probability": results["min_message_probability"], "messages": args.num_messages}
    title = f"{args.num_messages} messages, {args.guide} guide, seed {args.seed}"
    viz.write_report(path, skills, shown, title=title, figures=figures, state_names=("time", "message"))


def main(args: Args) -> dict:
    """Trains, prints, saves."""
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "config.json").write_text(json.dumps(asdict(args) | {"out": str(args.out)}, indent=2) + "\n")
    trainer, results = train(args, save=True)
    (args.out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    figure(args, trainer, args.out / "toy_message.png")
    report(args, trainer, results, args.out / "report.html")
    rows = {key: value for key, value in results.items() if key != "usage"}
    width = max(map(len, rows))
    for key, value in rows.items():
        print(f"{key:<{width}}  {f'{value:.4g}' if isinstance(value, float) else value}")
    print(f"\nwrote results.json, toy_message.png and report.html to {args.out}")
    return results


if __name__ == "__main__":
    with explained_interrupts():
        main(tyro.cli(Args))
