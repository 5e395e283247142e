"""From a scripted expert to learning curves on an Atari game, with skills and without.

Each run plays the expert, discovers options in its RAM with a named method, adds them to the game's actions and trains
PPO. Run it with::

    python examples/atari_ppo.py                                             # RAM, MlpPolicy: an hour or so per run
    python examples/atari_ppo.py --preset paper --device cuda                # pixels, CnnPolicy, 3 million decisions
    python examples/atari_ppo.py --arms none options-exact ddo@8 --seeds 0 1
    python examples/atari_ppo.py --arms options@8 --total-steps 300000 --game Freeway

An arm is ``none`` or a method of ``pyro_options.methods``, with ``@K`` to fix the number of options. Runs are kept one
by one in ``--out``: stop it whenever you like, and the same command goes on from the last checkpoint to the same
numbers (``--no-resume`` starts again). It writes a table and ``atari_ppo.png``: interquartile means over seeds with
95 % bootstrap intervals, against decisions (the paper's axis) and against frames of the emulator (the fair one). Every
arm has the same wrappers. Returns are those of whole games, unclipped, over the last 100 episodes of training; frames
of resets are not counted.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
import tyro
from stable_baselines3.common import atari_wrappers
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from pyro_options import plotting
from pyro_options.discovery import skills_of
from pyro_options.envs import SkillWrapper, atari_demonstrations, make_atari, ram
from pyro_options.errors import check
from pyro_options.infer import Checkpoint, TrainConfig, Trainer, explained_interrupts, set_seed
from pyro_options.methods import METHODS, build
from pyro_options.rl import SMDPPPO, PartwiseLearning, bootstrap_interval, curve_band, interquartile_mean
from pyro_options.skills import Skills
from pyro_options.storage import write_json

FRAME_SKIP = 4
FIXED = ("max_duration", "deterministic", "gamma", "num_episodes", "episode_steps", "epochs")


@dataclass(frozen=True)
class Preset:
    """What the agent sees, and how PPO learns from it."""

    policy: str
    total_steps: int
    num_envs: int
    ppo: dict[str, Any]


#: paper: the defaults of Stable-Baselines3 with n_steps 512 (appendix B); ram: a study that a CPU can do
PRESETS = {
    "paper": Preset("CnnPolicy", 3_000_000, 1, {"n_steps": 512}),
    "ram": Preset(
        "MlpPolicy",
        500_000,
        8,
        {
            "n_steps": 128,
            "batch_size": 256,
            "n_epochs": 4,
            "learning_rate": 2.5e-4,
            "clip_range": 0.1,
            "ent_coef": 0.01,
            "policy_kwargs": {"net_arch": [256, 256]},
        },
    ),
}


@dataclass(frozen=True)
class Args:
    """Skills from an expert, then PPO."""

    game: str = "Breakout"
    """Breakout, Freeway or Pong"""
    preset: Literal["ram", "paper"] = "ram"
    arms: tuple[str, ...] = ("none", "options-exact", "options-exact@8", "ddo@8")
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """of demonstrations, discovery and learning"""
    total_steps: int | None = None
    """decisions of each run; by default the preset's"""
    max_duration: int = 15
    """steps after which a skill is stopped"""
    deterministic: bool = True
    """whether skills take their most probable action"""
    gamma: float = 0.99
    num_episodes: int = 100
    """of the expert"""
    episode_steps: int = 300
    """at which an expert's episode is cut"""
    epochs: int = 60
    """of discovery"""
    checkpoint_every: int = 50_000
    """decisions"""
    resume: bool = True
    """go on with runs that were stopped, and keep those that are finished"""
    processes: bool = False
    """one process for each environment"""
    device: str = "auto"
    progress: bool = True
    """show the progress of discovery"""
    out: Path = Path("out/atari_ppo")

    def __post_init__(self) -> None:
        for arm in self.arms:
            name, _, count = arm.partition("@")
            known = arm == "none" or (name in METHODS and (count.isdigit() or "@" not in arm))
            check(known, f"arms none, or one of {', '.join(METHODS)}, with @K or without", repr(arm))

    @property
    def steps(self) -> int:
        return PRESETS[self.preset].total_steps if self.total_steps is None else self.total_steps

    def settings(self) -> dict[str, Any]:
        """What a run may not change when it is resumed."""
        return {name: getattr(self, name) for name in FIXED} | {"total_steps": self.steps}

    def folder(self, arm: str, seed: int) -> Path:
        return self.out / f"{self.game}_{self.preset}_{arm}_seed{seed}"


class RamBits(gym.ObservationWrapper):
    """The bits of the RAM, 1024 zeros and ones."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 1, (1024,), np.float32)

    def observation(self, observation):
        return np.unpackbits(observation).astype(np.float32)


def make_game(args: Args) -> gym.Env:
    """The game as every arm sees it; Monitor is innermost, to report whole games and unclipped scores."""
    if args.preset == "paper":
        make_atari(args.game).close()  # registers the games, and refuses unknown ones
        env: gym.Env = Monitor(gym.make(f"{args.game}NoFrameskip-v4", frameskip=1))
        env = gym.wrappers.FrameStackObservation(atari_wrappers.AtariWrapper(env, frame_skip=FRAME_SKIP), 4)
        return gym.wrappers.ReshapeObservation(env, (4, 84, 84))
    env = atari_wrappers.EpisodicLifeEnv(Monitor(make_atari(args.game, FRAME_SKIP)))
    if "FIRE" in env.unwrapped.get_action_meanings():  # type: ignore[attr-defined]
        env = atari_wrappers.FireResetEnv(env)
    return RamBits(atari_wrappers.ClipRewardEnv(env))


def make_envs(args: Args, skills: Skills | None) -> VecEnv:
    def make():
        options = {"max_duration": args.max_duration, "deterministic": args.deterministic, "frame_skip": FRAME_SKIP}
        return SkillWrapper(make_game(args), skills, args.gamma, observe=ram, **options)

    kind = SubprocVecEnv if args.processes else DummyVecEnv
    return kind([make] * PRESETS[args.preset].num_envs)


def discover(arm: str, args: Args, seed: int) -> Skills | None:
    """Options from the expert's demonstrations; kept in the run's folder."""
    path = args.folder(arm, seed) / "skills.safetensors"
    if arm == "none":
        return None
    if args.resume and path.exists():
        return Skills.load(path)
    data = atari_demonstrations(args.game, args.num_episodes, max_steps=args.episode_steps, seed=seed)
    name, _, count = arm.partition("@")
    set_seed(seed)
    method = build(name, data, hidden=(), skip_constant=True, **({"num_options": int(count)} if count else {}))
    config = TrainConfig(args.epochs, batch_size=32, seed=seed, device=args.device, progress=args.progress)
    saved = Checkpoint(path.with_name("discovery.safetensors"), args.resume)
    Trainer(method.model, method.guide, data, config, method.growth, checkpoint=saved).run()
    skills = skills_of(method, data).used().to("cpu")
    print(skills.describe(), flush=True)
    skills.save(path)
    return skills


def run(arm: str, args: Args, seed: int) -> dict:
    """One arm with one seed, from wherever it was left."""
    folder = args.folder(arm, seed)
    folder.mkdir(parents=True, exist_ok=True)
    result = folder / "result.json"
    if args.resume and result.exists():
        saved = json.loads(result.read_text())
        check(saved["settings"] == args.settings(), f"the settings of {result}", args.settings(), "Use another --out.")
        return saved
    skills = discover(arm, args, seed)
    preset = PRESETS[args.preset]
    learner, rows = PartwiseLearning(
        folder / "agent.safetensors",
        lambda: make_envs(args, skills),
        lambda envs: SMDPPPO(preset.policy, envs, gamma=args.gamma, seed=seed, device=args.device, **preset.ppo),
        every=args.checkpoint_every,
        seed=seed,
        resume=args.resume,
        about=args.settings() | {"total_steps": None},
    ).run(args.steps)
    print(f"{args.game} {arm} seed {seed}: {rows[-1]}", flush=True)
    learner.save(folder / "agent.zip")
    row = {"game": args.game, "preset": args.preset, "arm": arm, "seed": seed, "settings": args.settings()}
    row |= {"num_options": 0 if skills is None else skills.num_options, "final_return": final_return(rows, args.steps)}
    write_json(result, row | {"curve": rows})
    return row | {"curve": rows}


def final_return(rows: list[dict], steps: int) -> float | None:
    """Mean return over the last sixth of the decisions, as in the paper; ``None`` if no game ended."""
    values = [row["return"] for row in rows if row["steps"] > steps * 5 / 6 and "return" in row]
    return float(np.mean(values)) if values else None


def table(runs: list[dict], arms: tuple[str, ...]) -> str:
    """Interquartile means with intervals: at the end, and at the frames that every run has seen."""
    frames = min(run["curve"][-1]["frames"] for run in runs)
    lines = [f"| arm | options | return at the end | return after {frames:,} frames |", "|---|---|---|---|"]
    for arm in arms:
        mine = [run for run in runs if run["arm"] == arm]
        counts = sorted({run["num_options"] for run in mine})
        fair = []
        for run in mine:
            seen = [row["return"] for row in run["curve"] if row["frames"] <= frames and "return" in row]
            fair.append(seen[-1] if seen else None)
        cells = [_interval([run["final_return"] for run in mine]), _interval(fair)]
        options = " to ".join(str(k) for k in sorted({counts[0], counts[-1]}))
        lines.append(f"| {arm} | {options} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _interval(values: list[float | None]) -> str:
    if None in values:
        return "no game ended"
    low, high = bootstrap_interval(np.array(values, dtype=float))
    return f"{interquartile_mean(values):.2f} [{low:.2f}, {high:.2f}]"


def figure(runs: list[dict], args: Args, path: Path) -> None:
    """Learning curves of all arms on both axes."""
    with plotting.style():
        fig, axes = plotting.plt.subplots(1, 2, figsize=(plotting.PAGE, 3.2), layout="constrained", sharey=True)
        for ax, axis, label in zip(axes, ("steps", "frames"), ("decisions", "frames of the emulator")):
            for number, arm in enumerate(args.arms):
                curves = [[row for row in one["curve"] if "return" in row] for one in runs if one["arm"] == arm]
                if not all(curves):
                    continue
                xs, ys = ([[row[key] for row in curve] for curve in curves] for key in (axis, "return"))
                band, color = curve_band(xs, ys), plotting.PALETTE[number]
                ax.plot(band.x, band.center, color=color, linewidth=2, label="no skills" if arm == "none" else arm)
                ax.fill_between(band.x, band.low, band.high, color=color, alpha=0.15, linewidth=0)
            ax.set(xlabel=label)
        axes[0].set(ylabel="return of a game")
        if axes[0].lines:
            axes[0].legend(loc="upper left")
        fig.suptitle(f"{args.game}, {args.preset}: interquartile mean of {len(args.seeds)} seeds, 95 % intervals")
        fig.savefig(path)
        plotting.plt.close(fig)


def main(args: Args) -> list[dict]:
    torch.set_num_threads(1 if args.preset == "ram" else torch.get_num_threads())
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "config.json").write_text(json.dumps(asdict(args) | {"out": str(args.out)}, indent=2) + "\n")
    runs = [run(arm, args, seed) for seed in args.seeds for arm in args.arms]
    text = table(runs, args.arms)
    (args.out / "atari_ppo.md").write_text(text + "\n")
    figure(runs, args, args.out / "atari_ppo.png")
    print(f"{text}\n\nwrote {args.out / 'atari_ppo.md'} and {args.out / 'atari_ppo.png'}")
    return runs


if __name__ == "__main__":
    with explained_interrupts():
        main(tyro.cli(Args))
