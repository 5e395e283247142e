"""PPO on Atari games with and without skills, from demonstrations of an expert to learning curves.

Each run records the expert, discovers options in RAM states with a named method, adds them to the game's actions and
trains PPO. Run it with::

    python examples/atari_ppo.py --hours 24 --processes 2            # RAM, MlpPolicy: the paper's games and arms
    python examples/atari_ppo.py --games Freeway --arms none options-exact ddo@8 --seeds 0 --total-steps 50000
    python examples/atari_ppo.py --preset paper --device cuda        # as in the paper: pixels, 3 million decisions
    python examples/atari_ppo.py --no-run                            # only tables and figure of finished runs

An arm is ``none`` or a method of ``pyro_options.discovery``, with ``@K`` to fix the number of options (required for ddo
and compile; bc always has one) and with ``+imitation`` to add imitation with all options combined as one more skill.
``options`` has an amortized guide, as the paper's method does, with and without a fixed K; the preset ``paper`` has
the paper's own guide, ``options-paper``.

With ``--hours`` only as many seeds are run as are expected to fit, judged by finished runs of a game or, before there
are any, by a short trial of learning and demonstrations, which does not include discovery.

Runs are saved in ``--out``; after an interruption, the same command resumes from the last checkpoints with the same
results. It writes a JSON file for each game (every run, with commands and versions), ``atari_ppo.md`` and
``atari_ppo.png``: interquartile means over seeds with 95 % bootstrap intervals, against decisions (the paper's axis)
and against emulator frames (a fair comparison). Several commands may share an ``--out`` if they play different games;
each writes tables and figure of its own games, and ``--no-run`` with all ``--games``, ``--arms`` and ``--seeds`` writes
those of all.

All arms use the same wrappers. Returns are of whole games, unclipped, and averaged over the last games of training (20
with RAM, 100 with pixels); frames of resets are not counted.
"""

import signal
import time
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import tyro
from stable_baselines3.common import atari_wrappers
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv
from studies.budget import Costs, fitting_seeds
from studies.learning import figure, final_return, page, thinned, whole_rounds

from pyro_options.discovery import METHODS, discover
from pyro_options.discovery import PRESETS as METHOD_PRESETS
from pyro_options.envs import (
    EXPERTS,
    AtariVecEnv,
    SkillWrapper,
    atari_demonstrations,
    expert_rollouts,
    make_atari,
    ram,
)
from pyro_options.errors import check, choice
from pyro_options.experiments import read_runs, run_grid
from pyro_options.persistence import explained_interrupts
from pyro_options.rl import SMDPPPO, PartwiseLearning
from pyro_options.skills import Skills

FRAME_SKIP = 4
PAPER_GAMES = ("Alien", "Asterix", "Asteroids", "Breakout", "ChopperCommand", "MontezumaRevenge", "SpaceInvaders")
IMITATION = "+imitation"  # suffix of an arm
DISCOVERY = ("num_episodes", "episode_steps", "epsilon", "expert_seed", "termination_cost", "epochs")


@dataclass(frozen=True)
class Preset:
    """Policy network, PPO settings and discovery; ``paper`` observes pixels, ``ram`` the bits of the RAM."""

    policy: str
    total_steps: int
    num_envs: int
    ppo: dict[str, Any]
    num_episodes: int = 300
    hidden: tuple[int, ...] = (64,)
    discovery: str | None = None  # preset of discover
    arms: tuple[str, ...] = (
        *("none", "bc", "options", "options@8", "options-exact"),
        *("ddo@8", "compile@8", "compile-np"),
    )


#: paper: the defaults of Stable-Baselines3 with n_steps 512, discovery as in appendix C; ram: small enough for a CPU
PRESETS = {
    "paper": Preset(
        *("CnnPolicy", 3_000_000, 1, {"n_steps": 512}, 1000, (), "paper"),
        ("none", "options-paper", "options-paper@8", "ddo@8", "compile@8", "compile-np"),
    ),
    "ram": Preset(
        "MlpPolicy",
        300_000,
        8,
        {
            "n_steps": 128,
            "batch_size": 256,
            "n_epochs": 4,
            "learning_rate": 2.5e-4,
            "clip_range": 0.1,
            "ent_coef": 0.01,
            "policy_kwargs": {"net_arch": [128, 128]},
            "stats_window_size": 20,  # a game of Freeway takes 2048 actions
        },
    ),
}


@dataclass(frozen=True)
class Setup:
    """Settings of a run apart from game, arm and seed."""

    preset: Literal["ram", "paper"] = "ram"
    total_steps: int | None = None
    """decisions per run; by default those of the preset"""
    max_duration: int = 4
    """maximum number of steps of a skill"""
    deterministic: bool = True
    """whether skills take their most probable action"""
    gamma: float = 0.99
    num_episodes: int | None = None
    """episodes of the expert; by default those of the preset"""
    episode_steps: int = 300
    """maximum length of an expert's episode"""
    epsilon: float = 0.05
    """probability that the expert acts at random, to visit more states"""
    expert_seed: int | None = None
    """of the demonstrations, for all runs; by default that of the run"""
    termination_cost: float = 0.0
    """nats per termination, for methods with terminations; higher values make options longer"""
    hidden: tuple[int, ...] | None = None
    """widths of the shared state network, empty for a linear layer per option; by default those of the preset"""
    epochs: int | None = None
    """of discovery; by default those of discover"""

    @property
    def steps(self) -> int:
        return PRESETS[self.preset].total_steps if self.total_steps is None else self.total_steps

    @property
    def episodes(self) -> int:
        return PRESETS[self.preset].num_episodes if self.num_episodes is None else self.num_episodes

    @property
    def widths(self) -> tuple[int, ...]:
        return PRESETS[self.preset].hidden if self.hidden is None else tuple(self.hidden)


def parts(arm: str) -> tuple[str, str, str]:
    """Splits an arm without its suffix into the method, ``@`` or an empty string, and K."""
    return arm.removesuffix(IMITATION).partition("@")


def _check_arm(arm: str) -> None:
    """Raises for an invalid arm, before any demonstrations are recorded."""
    name, at, count = parts(arm)
    known = arm == "none" or (name in METHODS and (not at or (count.isdecimal() and int(count) >= 1)))
    check(known, f"arms none, or one of {', '.join(METHODS)}, with @K and {IMITATION} or without", repr(arm))
    method = METHODS.get(name, {})
    whole = method.get("guide") != "segments" or not arm.endswith(IMITATION)
    check(whole, f"{name} without {IMITATION}, as its skills have no terminations,", repr(arm))
    fixed = method.get("num_options")
    check(not (at and fixed), f"{name} without @K, which has {fixed} option,", repr(arm))
    needs = method.get("prior") == "uniform" and not fixed
    check(bool(at) or not needs, f"{name}@K, as it does not find K by itself,", repr(arm), f"Pass {name}@8, say.")


@dataclass(frozen=True)
class Args(Setup):
    """Discover skills in expert demonstrations, then train PPO with them."""

    games: tuple[str, ...] = PAPER_GAMES
    """the paper's, Freeway or Pong"""
    arms: tuple[str, ...] | None = None
    """by default those of the preset"""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """of demonstrations, discovery and learning"""
    hours: float | None = None
    """run only the first seeds, as many as fit into this time; at least one"""
    processes: int = 1
    """runs at a time, each on one thread"""
    env_processes: bool = False
    """run each environment in its own process"""
    checkpoint_every: int = 100_000
    """decisions between checkpoints"""
    device: str = "auto"
    out: Path = Path("out/atari_ppo")
    run: bool = True
    """train missing runs; otherwise only write tables and figure of finished ones"""
    progress: bool = True

    def __post_init__(self) -> None:
        for game in self.games:
            choice(game, "game", EXPERTS)
        for arm in self.all_arms:
            _check_arm(arm)
        check(self.hours is None or self.hours > 0, "hours > 0", self.hours)

    @property
    def all_arms(self) -> tuple[str, ...]:
        return PRESETS[self.preset].arms if self.arms is None else self.arms


def grid(game: str, args: Args) -> dict[str, dict]:
    """All runs, seed by seed, so that an unfinished study compares all arms on the same seeds."""
    setup = {field.name: getattr(args, field.name) for field in fields(Setup)}
    setup |= {"total_steps": args.steps, "num_episodes": args.episodes, "hidden": args.widths}
    runs = product(args.seeds, args.all_arms)
    return {f"{arm}, seed {seed}": {"game": game, "arm": arm, "seed": seed, **setup} for seed, arm in runs}


class RamBits(gym.ObservationWrapper):
    """The RAM as 1024 bits."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 1, (1024,), np.float32)

    def observation(self, observation):
        return np.unpackbits(observation).astype(np.float32)


def make_game(game: str, preset: str) -> gym.Env:
    """The environment that all arms share; Monitor is innermost, to report whole games and unclipped scores."""
    if preset == "paper":
        make_atari(game).close()  # registers the games
        env: gym.Env = Monitor(gym.make(f"{game}NoFrameskip-v4", frameskip=1))
        env = gym.wrappers.FrameStackObservation(atari_wrappers.AtariWrapper(env, frame_skip=FRAME_SKIP), 4)
        return gym.wrappers.ReshapeObservation(env, (4, 84, 84))
    env = atari_wrappers.EpisodicLifeEnv(Monitor(make_atari(game, FRAME_SKIP)))
    if "FIRE" in env.unwrapped.get_action_meanings():  # type: ignore[attr-defined]
        env = atari_wrappers.FireResetEnv(env)
    return RamBits(atari_wrappers.ClipRewardEnv(env))


def make_envs(game: str, setup: Setup, skills: Skills | None, processes: bool = False, imitate: bool = False) -> VecEnv:
    def make():
        if processes:  # Ctrl-C is sent to all processes of the terminal, but the learner must finish its rollout
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        options = {"max_duration": setup.max_duration, "deterministic": setup.deterministic, "frame_skip": FRAME_SKIP}
        env = make_game(game, setup.preset)
        return SkillWrapper(env, skills, setup.gamma, observe=ram, imitate=imitate, **options)

    count, lasts = PRESETS[setup.preset].num_envs, {"max_duration": setup.max_duration, "frame_skip": FRAME_SKIP}
    if setup.preset == "ram" and not processes:  # the same steps as those of the wrappers
        acting = {"deterministic": setup.deterministic, "imitate": imitate}
        return AtariVecEnv(game, count, skills, setup.gamma, **acting, **lasts)
    return (SubprocVecEnv if processes else DummyVecEnv)([make] * count)


def find_skills(
    game: str, arm: str, setup: Setup, seed: int, folder: Path, device: str, progress: bool = False
) -> Skills | None:
    """Discovers skills in the expert's demonstrations, or loads them from the run's folder."""
    if arm == "none":
        return None
    path = folder / "skills.safetensors"
    about = {name: value for name, value in asdict(setup).items() if name in DISCOVERY}
    about |= {"num_episodes": setup.episodes, "hidden": [*setup.widths]}
    if path.exists():
        skills = Skills.load(path)
        check(skills.metadata["setup"] == about, f"the setup of {path}", about, "Use another --out.")
        return skills
    name, _, count = parts(arm)
    config: dict[str, Any] = {"preset": PRESETS[setup.preset].discovery}
    if count:
        config["num_options"] = int(count)
    if METHODS[name]["guide"] == "segments":
        config |= METHOD_PRESETS["compile-atari"]
    else:
        config["termination_cost"] = setup.termination_cost
    if "hidden" not in METHODS[name]:
        config["hidden"] = setup.widths
    if setup.epochs is not None:
        config["epochs"] = setup.epochs
    shown = seed if setup.expert_seed is None else setup.expert_seed
    play = {"max_steps": setup.episode_steps, "epsilon": setup.epsilon, "seed": shown, "progress": progress}
    data = atari_demonstrations(game, setup.episodes, cache=folder.parent, **play)  # shared by all arms
    saved = {"checkpoint": folder / "discovery.safetensors", "resume": True}
    skills = discover(data, name, seed=seed, device=device, progress=progress, trust=False, **saved, **config).used()
    skills.metadata["setup"] = about
    skills.save(path)
    return skills


def run(
    game: str,
    arm: str,
    seed: int,
    *,
    out: Path,
    every: int,
    env_processes: bool = False,
    device: str = "auto",
    progress: bool = False,
    **setup,
) -> dict:
    """Trains one arm of one game with one seed, resuming from its last checkpoint.

    :param every: decisions between checkpoints
    :param progress: show a progress bar
    :param setup: fields of :class:`Setup`
    """
    given, preset = Setup(**setup), PRESETS[setup["preset"]]
    folder = out / f"{game}_{given.preset}_{arm}_seed{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    skills = find_skills(game, arm, given, seed, folder, device, progress)
    learner, rows = PartwiseLearning(
        folder / "agent.safetensors",
        lambda: make_envs(game, given, skills, env_processes, arm.endswith(IMITATION)),
        lambda envs: SMDPPPO(preset.policy, envs, gamma=given.gamma, seed=seed, device=device, **preset.ppo),
        every=every,
        seed=seed,
        # total_steps may be larger when resuming; everything else in the preset must be the same
        about=setup | {"policy": preset.policy, "num_envs": preset.num_envs, "ppo": preset.ppo, "total_steps": None},
        progress=progress,
    ).run(given.steps)
    learner.save(folder / "agent.zip")
    return {
        "num_options": 0 if skills is None else skills.num_options,
        "mean_duration": learner.num_primitive_steps / learner.num_timesteps,
        "final_return": final_return(rows, given.steps),
        "curve": thinned(rows),
    }


def trial(game: str, args: Args) -> Costs:
    """Processor seconds of learning a run and of the demonstrations of a seed, from one rollout and one short episode.

    A decision with skills is expected to last half of their maximal duration.
    """
    preset = PRESETS[args.preset]
    envs = make_envs(game, args, None)
    learner = SMDPPPO(preset.policy, envs, gamma=args.gamma, seed=0, device=args.device, **preset.ppo)
    start = time.process_time()
    learner.learn(1)
    seconds = (time.process_time() - start) / learner.num_timesteps
    envs.close()
    start = time.process_time()
    steps = expert_rollouts(game, 1, 30, epsilon=args.epsilon).trajectories.num_steps
    expert = (time.process_time() - start) / steps
    return Costs(args.steps * seconds * max(1.0, args.max_duration / 2), args.episodes * args.episode_steps * expert)


def within_hours(args: Args) -> Args:
    """The arguments with the seeds that fit into ``--hours``; prints what does."""
    if args.hours is None or not args.run:
        return args
    known = {game: read_runs(args.out / f"{game}.json") for game in args.games}
    costs = {game: Costs.of_runs(rows) or trial(game, args) for game, rows in known.items()}
    finished = {game: [row["name"] for row in rows] for game, rows in known.items()}
    missing = {game: [name for name in grid(game, args) if name not in finished[game]] for game in args.games}
    seeds, text = fitting_seeds(costs, missing, args.seeds, args.hours * args.processes)
    print(text)
    return replace(args, seeds=seeds)


def main(args: Args) -> list[dict]:
    """Trains missing runs, then writes the tables and the figure."""
    args = within_hours(args)
    where = {"out": args.out, "every": args.checkpoint_every, "device": args.device}
    alone = args.processes == 1  # progress bars of parallel runs would overwrite each other
    job = partial(run, env_processes=args.env_processes, progress=args.progress and alone, **where)
    rows: list[dict] = []
    for game in args.games:
        path, jobs = args.out / f"{game}.json", grid(game, args)
        if args.run:
            run_grid(job, jobs, path, args.processes, args.progress)
        done = {row["name"]: row for row in read_runs(path)}
        rows += whole_rounds([done[name] for name in jobs if name in done])
    check(len(rows) > 0, f"finished runs in {args.out}, of all arms for a seed,", "none")
    path, picture = args.out / "atari_ppo.md", args.out / "atari_ppo.png"
    text = page(rows, picture.name)
    path.write_text(text)
    figure(rows, picture)
    print(f"{text}\nwrote {path} and {picture}")
    return rows


if __name__ == "__main__":
    with explained_interrupts():
        main(tyro.cli(Args))
