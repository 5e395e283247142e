"""PPO on a sparse-reward task, with and without skills discovered in demonstrations.

In a hall with four switches, an expert presses two random ones per episode. Options are discovered in 400 unlabelled
episodes, with K inferred. PPO then has to press all four switches in a hidden order, once with primitive actions only
and once with the skills added. Run it with::

    python examples/switches_ppo.py
    python examples/switches_ppo.py --seeds 0 --arms options-exact       # a minute

It prints a table and writes ``results.json`` (every run, with commands and versions), ``switches_ppo.png`` and, with
skills, ``skills.gif`` to ``--out``. Runs in ``results.json`` are not repeated, so the same command resumes after Ctrl-C
or a crash. The success rate is over the last 100 training episodes; frames count every environment step, including
those within skills.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import tyro
from PIL import Image
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from pyro_options import viz
from pyro_options.discovery import discover
from pyro_options.envs import SkillWrapper, SwitchesEnv, agent_space, switches_demonstrations
from pyro_options.experiments import curve_band, run_grid
from pyro_options.rl import SMDPPPO, CurveCallback
from pyro_options.skills import Skills


@dataclass(frozen=True)
class Setup:
    """Settings of a run apart from arm and seed."""

    max_frames: int = 200_000
    """end an unsuccessful run after this many frames"""
    stop_at: float = 0.9
    """success rate at which training stops"""
    num_episodes: int = 400
    """number of demonstrations"""
    epochs: int | None = None
    """of discovery; by default those of discover"""
    max_duration: int = 20
    """maximum number of steps of a skill"""
    gamma: float = 0.99
    num_envs: int = 8
    n_steps: int = 128
    """decisions of each environment between updates"""
    ent_coef: float = 0.1
    """with less, PPO without skills gets stuck at the first switch"""
    learning_rate: float = 1e-3
    """of PPO"""


@dataclass(frozen=True)
class Args(Setup):
    """PPO with and without discovered skills."""

    arms: tuple[str, ...] = ("none", "options-exact")
    """none, or a method of pyro_options.discovery"""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """of demonstrations, discovery and learning"""
    processes: int = 1
    """runs at a time, each on one thread"""
    out: Path = Path("out/switches_ppo")


class Progress(CurveCallback):
    """Records the learning curve, and stops training at ``stop_at`` or ``max_frames``."""

    def __init__(self, args: Setup):
        super().__init__()
        self.args = args

    def _on_step(self) -> bool:
        recent = self.model.ep_success_buffer
        solved = len(recent) >= 100 and np.mean(recent) >= self.args.stop_at
        if solved or self.model.num_frames >= self.args.max_frames:
            self._on_rollout_end()
            return False
        return True


def find_skills(arm: str, args: Setup, seed: int) -> tuple[Skills, dict]:
    """Discovers skills in the demonstrations; returns them and their statistics."""
    data = switches_demonstrations(args.num_episodes, seed)
    skills = discover(data, arm, epochs=args.epochs, seed=seed, device="cpu", progress=False, trust=False).used()
    found = {"num_options": skills.num_options, "log_likelihood": skills.log_likelihood(data)}
    return skills, found | {"demonstration_frames": data.num_steps}


def learn(skills: Skills | None, args: Setup, seed: int) -> list[dict]:
    """Trains PPO until it succeeds or reaches ``max_frames``; returns its learning curve."""

    def make():
        return SkillWrapper(
            Monitor(SwitchesEnv()), skills, args.gamma, max_duration=args.max_duration, observe=agent_space
        )

    env = DummyVecEnv([make] * args.num_envs)
    learner = SMDPPPO(
        "MlpPolicy",
        env,
        n_steps=args.n_steps,
        batch_size=256,
        n_epochs=4,
        gamma=args.gamma,
        ent_coef=args.ent_coef,
        learning_rate=args.learning_rate,
        seed=seed,
        device="cpu",
    )
    progress = Progress(args)
    learner.learn(args.max_frames, progress)  # an upper limit: a decision takes at least one frame
    return progress.rows


def run(arm: str, seed: int, *, out: Path, **setup) -> dict:
    """One arm with one seed.

    :param setup: fields of :class:`Setup`
    """
    args = Setup(**setup)
    skills, found = (None, {}) if arm == "none" else find_skills(arm, args, seed)
    curve = learn(skills, args, seed)
    solved = len(curve) > 0 and curve[-1].get("success", 0.0) >= args.stop_at
    if skills is not None:
        film(skills, args, out / "skills.gif")
    return {"solved": solved, **curve[-1], **found, "curve": curve}


def film(skills: Skills, args: Setup, path: Path) -> None:
    """Animates each skill from three random places; a border in the skill's colour marks that it is running."""
    rows = []
    for k in range(skills.num_options):
        env = SkillWrapper(
            SwitchesEnv(render_mode="rgb_array"),
            skills,
            args.gamma,
            max_duration=args.max_duration,
            observe=agent_space,
            record_frames=True,
        )
        clips = []
        for start in range(3):
            env.reset(seed=start)
            first = env.render()
            clips.append([first, *env.step(5 + k)[4]["frames"]])
        rows.append(clips)
    length = 4 + max(len(clip) for clips in rows for clip in clips)
    images = [Image.fromarray(_sheet(rows, t)) for t in range(length)]
    images[0].save(path, save_all=True, append_images=images[1:], duration=160, loop=0)


def _sheet(rows: Sequence[Sequence[Sequence[np.ndarray]]], t: int) -> np.ndarray:
    """The image of all clips at time t; finished clips keep their last frame, without a border."""
    columns = []
    for k, clips in enumerate(rows):
        color = [int(viz.option_color(k)[i : i + 2], 16) for i in (1, 3, 5)]
        cells = []
        for clip in clips:
            picture = clip[min(t, len(clip) - 1)]
            edge = color if t < len(clip) else [255, 255, 255]
            cell = np.full((picture.shape[0] + 12, picture.shape[1] + 12, 3), edge, np.uint8)
            cell[6:-6, 6:-6] = picture
            cells.append(cell)
        columns.append(np.concatenate(cells, 0))
    return np.concatenate(columns, 1)


def figure(runs: list[dict], path: Path) -> None:
    """Success rate against decisions and against frames: all runs, and their interquartile mean."""
    with viz.style():
        fig, axes = viz.plt.subplots(1, 2, figsize=(viz.PAGE, 3.2), layout="constrained", sharey=True)
        for ax, axis, label in zip(axes, ("steps", "frames"), ("decisions", "frames of the environment")):
            for number, arm in enumerate(dict.fromkeys(run["arm"] for run in runs)):
                color = viz.PALETTE[number]
                name = "plain actions" if arm == "none" else f"with skills ({arm})"
                _draw(ax, [run["curve"] for run in runs if run["arm"] == arm], axis, color, name)
            ax.axhline(0.9, color="0.5", linestyle="--", linewidth=1)
            ax.set(xlabel=label, xscale="log", ylim=(-0.02, 1.02))
        axes[0].set(ylabel="success, last 100 episodes")
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        fig.suptitle("Four switches in an unknown order")
        fig.savefig(path)
        viz.plt.close(fig)


def _draw(ax, curves: list[list[dict]], axis: str, color: str, name: str) -> None:
    points = [[(row[axis], row["success"]) for row in curve if "success" in row] for curve in curves]
    points = [np.array(one) for one in points if one]
    for one in points:
        ax.plot(*one.T, color=color, alpha=0.35, linewidth=1)
        ax.plot(*one[-1], "o", color=color, markersize=4)
    if points:
        # Runs that stop early have succeeded: their last value is held until the longest run ends.
        end = max(one[-1, 0] for one in points)
        held = [np.vstack([one, [end, one[-1, 1]]]) for one in points]
        band = curve_band([one[:, 0] for one in held], [one[:, 1] for one in held], num_resamples=500)
        ax.plot(band.x, band.center, color=color, linewidth=2.5, label=name)
        ax.fill_between(band.x, band.low, band.high, color=color, alpha=0.15, linewidth=0)


def table(runs: list[dict], max_frames: int) -> str:
    """Frames until success by seed, and the ratio to PPO without skills."""
    plain = {run["seed"]: run for run in runs if run["arm"] == "none"}
    lines = ["| arm | seed | options | decisions | frames | of plain |", "|---|---|---|---|---|---|"]
    for run in runs:
        ratio = ""
        if run["arm"] != "none" and run["solved"] and run["seed"] in plain:
            other = plain[run["seed"]]
            ratio = f"{'' if other['solved'] else '< '}{run['frames'] / other['frames']:.3f}"
        frames = f"{run['frames']:,}" if run["solved"] else f"> {max_frames:,} ({run.get('success', 0):.0%})"
        lines.append(
            f"| {run['arm']} | {run['seed']} | {run.get('num_options', '')} | {run['steps']:,} | {frames} | {ratio} |"
        )
    return "\n".join(lines)


def main(args: Args) -> list[dict]:
    """Trains missing runs, then writes the figure."""
    path, setup = args.out / "results.json", {field.name: getattr(args, field.name) for field in fields(Setup)}
    jobs = {f"{arm}, seed {s}": {"arm": arm, "seed": s, **setup} for s, arm in product(args.seeds, args.arms)}
    runs = run_grid(partial(run, out=args.out), jobs, path, args.processes)
    figure(runs, args.out / "switches_ppo.png")
    print(table(sorted(runs, key=lambda one: (args.arms.index(one["arm"]), one["seed"])), args.max_frames))
    print(f"\nwrote {path} and {args.out / 'switches_ppo.png'}")
    return runs


if __name__ == "__main__":
    main(tyro.cli(Args))
