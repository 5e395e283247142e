"""Discover options in Atari demonstrations: RAM bits as states, a linear policy per option, K inferred from the data.

Demonstrations come from the scripted expert (no download), a file, or a Minari data set. Run it with::

    python examples/atari_discover.py --expert scripted --game Breakout
    python examples/atari_discover.py --data breakout.npz                    # arrays ram, action, length
    python examples/atari_discover.py --data mine.npz --guide relaxed        # or a file of Trajectories.save
    python examples/atari_discover.py --minari atari/breakout/expert-v0
    python examples/atari_discover.py --expert scripted --termination-cost 3  # longer options
    python examples/atari_discover.py --preset paper                         # the paper's settings: 1000 x 300 steps
    python examples/atari_discover.py --resume                               # resume after Ctrl-C or a crash
    torchrun --nproc-per-node 4 examples/atari_discover.py --data big        # four processes divide the work

It prints the options and writes to ``--out``: ``results.json``, ``config.json``, ``skills.safetensors``,
``atari_discover.png``, ``option_cards.png``, ``options_*.gif`` (held-out episodes with the active option) and
``report.html`` (an interactive report of the same).
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import tyro

from pyro_options import viz
from pyro_options.data import Trajectories, from_minari, rollout
from pyro_options.discovery import PAPER_GUIDE, Budget, discover
from pyro_options.envs import EXPERTS, atari_demonstrations, load_atari, make_atari, replay_frames
from pyro_options.errors import check
from pyro_options.experiments import write_results
from pyro_options.growth import GrowthEvent
from pyro_options.infer import join_workers
from pyro_options.persistence import explained_interrupts
from pyro_options.skills import IN_USE, Segmentation, Skills, make_cards
from pyro_options.viz import save_gif

Guide = Literal["exact", "relaxed", "relaxed-marginal", "paper", "score-function", "straight-through"]
METHODS = {
    "exact": "options-exact",
    "relaxed": "options",
    "relaxed-marginal": "options-relaxed-marginal",
    "paper": "options-paper",
    "score-function": "options-score-function",
    "straight-through": "options-straight-through",
}


@dataclass(frozen=True)
class Args:
    """Discover options in Atari demonstrations."""

    data: Path | None = None
    """npz file with arrays ram (N, T, 128), action (N, T) and length (N,), or a file or folder of Trajectories.save"""
    minari: str | None = None
    """id of a local Minari data set of RAM observations"""
    expert: Literal["scripted"] | None = None
    """record demonstrations of the scripted expert of --game; the default without --data and --minari"""
    game: str = "Breakout"
    """for the expert, the names of actions, and frames"""
    preset: Literal["paper"] | None = None
    """paper: guide, growth, training and number of demonstrations as in the paper; by default our own"""
    num_episodes: int | None = None
    """episodes of the expert; by default 200, and 1000 with the paper's settings"""
    max_steps: int = 300
    """maximum length of an expert's episode"""
    epsilon: float = 0.05
    """probability that the expert acts at random, to visit more states"""
    subset: int | None = None
    """use only this many first episodes"""
    guide: Guide = "exact"
    """posterior over paths; the paper's settings have their own"""
    num_options: int | None = None
    """fix K instead of growing it"""
    initial_options: int | None = None
    """initial K; by default that of the rule"""
    max_options: int = 32
    rule: Literal["trial", "evidence", "usage", "posterior-usage"] | None = None
    """when to grow: trial judges new options after training them, evidence at birth; usage is the paper's rule; by
    default that of the guide"""
    birth: str | None = None
    """how a new option is initialized; by default that of the rule"""
    check_every: int | None = None
    """updates between growth checks; by default that of the rule, or a sixth of all updates"""
    termination_cost: float = 0.0
    """nats per termination; higher values make options longer"""
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    held_out: float = 0.2
    """share of the episodes to evaluate on"""
    gifs: int = 1
    """number of animated episodes"""
    gif_steps: int = 150
    """steps per animation"""
    report_episodes: int = 6
    """held-out episodes in the report; 0 for no report"""
    report_steps: int = 300
    """steps of each episode in the report"""
    seed: int = 0
    device: str = "auto"
    out: Path = Path("out/atari_discover")
    resume: bool = False
    """resume the interrupted training in --out"""
    progress: bool = True


def load(args: Args) -> Trajectories:
    """Demonstrations of the expert, from a file, or from Minari."""
    if sum(x is not None for x in (args.data, args.minari, args.expert)) > 1:
        raise SystemExit("Expected one of --data, --minari and --expert but got several.")
    if args.minari is not None:
        data = from_minari(args.minari, packed=True)
    elif args.data is not None:
        data = load_atari(args.data)
    else:
        play = {"max_steps": args.max_steps, "epsilon": args.epsilon, "seed": args.seed, "progress": args.progress}
        number = args.num_episodes or (1000 if args.preset else 200)
        data = atari_demonstrations(args.game, number, **play)
    fix = "Record them with collect(..., observe=ram, packed=True)."
    check(data.packed and data.state_dim == 8 * 128 and data.discrete, "128 packed bytes of RAM a step", data, fix)
    return data if args.subset is None else data[: args.subset]


def action_names(args: Args, num_actions: int) -> list[str] | None:
    """The game's names of its actions, if their number matches."""
    env = make_atari(args.game)
    names = env.unwrapped.get_action_meanings()
    env.close()
    return names if len(names) == num_actions else None


def train(args: Args, data: Trajectories, method: str, **config) -> Skills:
    """Runs ``discover`` with the settings that are the same for all methods."""
    return discover(
        data,
        method,
        preset=args.preset,
        epochs=args.epochs,
        batch_size=args.batch_size,
        learning_rate=args.learning_rate,
        seed=args.seed,
        device=args.device,
        progress=args.progress,
        action_names=action_names(args, data.action_dim),
        checkpoint=args.out / f"{method}.safetensors",
        resume=args.resume,
        **config,
    )


def results(args: Args, skills: Skills, cloned: Skills, segmentation: Segmentation, held: Trajectories) -> dict:
    """The content of ``results.json``; on held-out episodes unless the name says ``train``."""
    likelihood, baseline = skills.log_likelihood(held), cloned.log_likelihood(held)
    summary = skills.summarize(held, segmentation)
    history = skills.metadata["history"]
    return {
        "game": args.game,
        "guide": PAPER_GUIDE if args.preset else args.guide,
        "preset": args.preset,
        "seed": args.seed,
        "episodes": skills.metadata["episodes"]["train"],
        "held_out_episodes": len(held),
        "num_options": skills.num_options,
        "used_options": int((summary.usage >= IN_USE).sum()),
        "exact_log_likelihood": likelihood,
        "behaviour_cloning_log_likelihood": baseline,
        "gain_over_behaviour_cloning": likelihood - baseline,
        "train_log_likelihood": skills.metadata["log_likelihood"]["train"],
        "mean_segment_length": segmentation.mean_length,
        "mean_duration": segmentation.mean_duration,
        "objective": history["objective"][-1] if history["objective"] else None,
        "epochs": len(history["objective"]),
        "seconds": skills.metadata["seconds"],
        "growth_epochs": history["growth_epochs"],
        "usage": summary.usage.tolist(),
        "segment_length": summary.mean_length.tolist(),
        "termination_rate": summary.termination_rate.tolist(),
        "names": skills.names,
    }


def figure(skills: Skills, segmentation: Segmentation, held: Trajectories, title: str, path: Path) -> None:
    """Growth, usage, segment lengths, actions of each option, and some segmented episodes."""
    shown, summary = min(len(held), 10), skills.summarize(held, segmentation)
    history = skills.metadata["history"]
    used = max(1, int((summary.usage >= 0.001).sum()))
    with viz.style():
        fig = viz.plt.figure(figsize=(viz.PAGE, 5.8), layout="constrained")
        axes = fig.subplot_mosaic([["growth", "usage", "lengths"], ["actions", "strip", "strip"]], height_ratios=[2, 3])
        viz.growth_timeline(
            axes["growth"],
            history["num_options"] or [1],
            events=[GrowthEvent.from_dict(event) for event in skills.metadata["growth"]],
            updates_per_epoch=skills.metadata["updates"] / max(1, len(history["num_options"])),
        )
        viz.usage_bars(axes["usage"], summary.usage)
        viz.segment_lengths(axes["lengths"], *segmentation.segment_lengths())
        order = summary.usage.argsort(descending=True)[:used]
        actions = summary.actions[order]
        viz.action_heatmap(axes["actions"], actions, "What each option does", options=order.tolist())
        if skills.action_names:
            axes["actions"].set_xticklabels(skills.action_names, rotation=40, ha="right", rotation_mode="anchor")
        viz.segmentation_strip(axes["strip"], segmentation.options[:shown], segmentation.lengths[:shown])
        fig.suptitle(title)
        fig.savefig(path)
        viz.plt.close(fig)


def replayed(args: Args, held: Trajectories) -> list[list | None]:
    """Screens of the held-out episodes to show, ``None`` for an episode that cannot be replayed."""
    count = max(args.gifs, args.report_episodes)
    if not count:
        return []
    shown = held[:count]
    steps = shown.lengths.clamp(max=max(args.gif_steps, args.report_steps)).tolist()
    pairs = [(shown.stored[i, :n].numpy(), shown.actions[i, :n].numpy()) for i, n in enumerate(steps)]
    return [replay_frames(args.game, states, actions) for states, actions in pairs]


def cards(skills: Skills, segmentation: Segmentation, held: Trajectories, frames: list, path: Path) -> None:
    """Draws the cards of the nine most used options."""
    made = make_cards(segmentation, skills.summarize(held, segmentation).actions)
    seen = {i: screens for i, screens in enumerate(frames) if screens is not None}
    with viz.style():
        fig = viz.option_cards(made[:9], skills.names, skills.action_names, frames=seen)
        fig.savefig(path)
        viz.plt.close(fig)


def gifs(args: Args, skills: Skills, held: Trajectories, segmentation: Segmentation, replays: list) -> list[Path]:
    """Animations of held-out episodes, or of new episodes of the expert if they cannot be replayed."""
    written = []
    for i in range(min(args.gifs, len(held))):
        steps = min(int(held.lengths[i]), args.gif_steps)
        options = segmentation.options[i, :steps].tolist()
        frames = None if replays[i] is None else replays[i][:steps]
        if frames is None and args.game in EXPERTS:
            print(f"episode {i} cannot be replayed; the animation shows a fresh one of the scripted expert")
            frames, options = expert_episode(args, skills, i)
        if frames is None:
            print(f"episode {i} cannot be replayed, and there is no expert for {args.game}: no animation")
            continue
        written.append(args.out / f"options_{i}.gif")
        save_gif(written[-1], frames, options, skills.names)
    return written


def expert_episode(args: Args, skills: Skills, number: int) -> tuple[list, list[int]]:
    """Frames of a new episode of the scripted expert, and its segmentation."""
    frames: list = []
    env = make_atari(args.game, render_mode="rgb_array")

    def watch(env, observation):
        frames.append(env.render())
        return observation

    seed = args.seed + 10_000 + number
    episode = rollout(env, EXPERTS[args.game](), 1, args.gif_steps, seed, observe=watch, packed=True).trajectories
    env.close()
    return frames, skills.segment(episode).options[0].tolist()


def main(args: Args) -> dict:
    """Discovers options, compares them with behaviour cloning, and writes all files."""
    args.out.mkdir(parents=True, exist_ok=True)
    data, held = load(args).split(args.held_out, args.seed)
    print(f"train on {data}\n" + ("the paper's settings" if args.preset else f"budget   {Budget()}"))
    names = ("rule", "birth", "check_every", "initial_options", "max_options")
    growth = {name: getattr(args, name) for name in names}
    skills = train(
        args,
        data,
        METHODS[PAPER_GUIDE if args.preset else args.guide],
        num_options=args.num_options,
        termination_cost=args.termination_cost,
        **growth,
    )
    cloned = train(args, data, "bc")
    if not join_workers().writes:  # under torchrun, the first process writes
        return {}
    segmentation = skills.segment(held)
    found = results(args, skills, cloned, segmentation, held)
    paths = {"out": str(args.out), "data": None if args.data is None else str(args.data)}
    (args.out / "config.json").write_text(json.dumps(asdict(args) | paths, indent=2) + "\n")
    write_results(args.out / "results.json", found)
    skills.used().save(args.out / "skills.safetensors")
    title = f"{args.game}, seed {args.seed}: {found['exact_log_likelihood']:.3f} held-out nats per step, "
    title += f"{found['behaviour_cloning_log_likelihood']:.3f} with K = 1"
    figure(skills, segmentation, held, title, args.out / "atari_discover.png")
    frames = replayed(args, held)
    cards(skills, segmentation, held, frames, args.out / "option_cards.png")
    animations = gifs(args, skills, held, segmentation, frames)
    names = ["results.json", "skills.safetensors", "atari_discover.png", "option_cards.png"]
    if args.report_episodes:
        names.append("report.html")
        viz.write_report(
            args.out / "report.html",
            skills,
            held,
            frames=frames,
            title=f"Skills in {args.game}",
            figures={"held-out nats per step with K = 1": found["behaviour_cloning_log_likelihood"]},
            max_trajectories=args.report_episodes,
            max_steps=args.report_steps,
        )
    print("\nheld-out episodes:\n" + skills.describe(held) + "\n")
    for key, value in found.items():
        if isinstance(value, int | float):
            print(f"{key:<34}{f'{value:.4g}' if isinstance(value, float) else value}")
    print(f"\nwrote {', '.join([*names, *(path.name for path in animations)])} to {args.out}")
    return found


if __name__ == "__main__":
    with explained_interrupts():
        main(tyro.cli(Args))
