"""From a scripted expert to learning curves on Atari games, with skills and without.

Each run plays the expert, discovers options in its RAM with a named method, adds them to the game's actions and trains
PPO. Run it with::

    python examples/atari_ppo.py                                     # RAM, MlpPolicy: two games, seven arms, five seeds
    python examples/atari_ppo.py --games Freeway --arms none options-exact ddo@8 --seeds 0 --total-steps 50000
    python examples/atari_ppo.py --preset paper --device cuda        # pixels, CnnPolicy, 3 million decisions
    python examples/atari_ppo.py --no-run                            # only draw what is there

An arm is ``none`` or a method of ``pyro_options.discovery``, with ``@K`` to fix the number of options (ddo and compile
need it, bc has one) and with ``+imitation`` to have all options together as one more skill. Runs are kept in
``--out``: stop it whenever you like, and the same command goes on from the last checkpoints to the same numbers. It
writes a JSON file for each game (every run, with commands and versions), ``atari_ppo.md`` and ``atari_ppo.png``:
interquartile means over seeds with 95 % bootstrap intervals, against decisions (the paper's axis) and against frames
of the emulator (the fair one). Two commands may share an ``--out`` if they play different games; each then draws and
tabulates its own, and one with ``--no-run`` and all of them (``--games``, ``--arms``, ``--seeds``) does so for all.
Every arm has the same wrappers. Returns are those of whole games, unclipped, over the last games of training (20 with
RAM, 100 with pixels); frames of resets are not counted.
"""

import signal
from dataclasses import asdict, dataclass, fields
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
from studies.learning import figure, final_return, page, thinned, whole_rounds

from pyro_options.discovery import METHODS, discover
from pyro_options.discovery import PRESETS as METHOD_PRESETS
from pyro_options.envs import EXPERTS, SkillWrapper, atari_demonstrations, make_atari, ram
from pyro_options.errors import check, choice
from pyro_options.experiments import read_runs, run_grid
from pyro_options.persistence import explained_interrupts
from pyro_options.rl import SMDPPPO, PartwiseLearning
from pyro_options.skills import Skills

FRAME_SKIP = 4
IMITATION = "+imitation"  # at the end of an arm
DISCOVERY = ("num_episodes", "episode_steps", "epsilon", "termination_cost", "epochs")


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
    """Everything about a run but its game, arm and seed."""

    preset: Literal["ram", "paper"] = "ram"
    total_steps: int | None = None
    """decisions of each run; by default the preset's"""
    max_duration: int = 4
    """steps after which a skill is stopped"""
    deterministic: bool = True
    """whether skills take their most probable action"""
    gamma: float = 0.99
    num_episodes: int = 300
    """of the expert"""
    episode_steps: int = 300
    """at which an expert's episode is cut"""
    epsilon: float = 0.05
    """chance that the expert acts at random, which shows states that are not its own"""
    termination_cost: float = 0.0
    """nats for each termination, where options have any; more makes them longer"""
    hidden: tuple[int, ...] = (64,)
    """units of the network below the options; none for a linear layer each"""
    epochs: int | None = None
    """of discovery, by default its own choice"""

    @property
    def steps(self) -> int:
        return PRESETS[self.preset].total_steps if self.total_steps is None else self.total_steps


def parts(arm: str) -> tuple[str, str, str]:
    """The method of an arm, ``@`` if its number of options is given, and that number."""
    return arm.removesuffix(IMITATION).partition("@")


def _check_arm(arm: str) -> None:
    """Refuses an arm before demonstrations are played for it."""
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
    """Skills from an expert, then PPO."""

    games: tuple[str, ...] = ("Freeway", "Breakout")
    """Breakout, Freeway or Pong"""
    arms: tuple[str, ...] = (
        *("none", "options-exact", "options-exact@8", "options-exact@8+imitation"),
        *("ddo@8", "compile@8", "compile-np"),
    )
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """of demonstrations, discovery and learning"""
    processes: int = 1
    """runs at a time, each on one thread"""
    env_processes: bool = False
    """one process for each environment"""
    checkpoint_every: int = 100_000
    """decisions"""
    device: str = "auto"
    out: Path = Path("out/atari_ppo")
    run: bool = True
    """otherwise only draw and write what is there"""
    progress: bool = True

    def __post_init__(self) -> None:
        for game in self.games:
            choice(game, "game", EXPERTS)
        for arm in self.arms:
            _check_arm(arm)


def grid(game: str, args: Args) -> dict[str, dict]:
    """Every run, in whole rounds of seeds, so that a study that is not done yet is a fair one."""
    setup = {field.name: getattr(args, field.name) for field in fields(Setup)} | {"total_steps": args.steps}
    runs = product(args.seeds, args.arms)
    return {f"{arm}, seed {seed}": {"game": game, "arm": arm, "seed": seed, **setup} for seed, arm in runs}


class RamBits(gym.ObservationWrapper):
    """The bits of the RAM, 1024 zeros and ones."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 1, (1024,), np.float32)

    def observation(self, observation):
        return np.unpackbits(observation).astype(np.float32)


def make_game(game: str, preset: str) -> gym.Env:
    """The game as every arm sees it; Monitor is innermost, to report whole games and unclipped scores."""
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
        if processes:  # Ctrl-C reaches every process of a terminal; the learner needs its environments to end a part
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        options = {"max_duration": setup.max_duration, "deterministic": setup.deterministic, "frame_skip": FRAME_SKIP}
        env = make_game(game, setup.preset)
        return SkillWrapper(env, skills, setup.gamma, observe=ram, imitate=imitate, **options)

    kind = SubprocVecEnv if processes else DummyVecEnv
    return kind([make] * PRESETS[setup.preset].num_envs)


def find_skills(
    game: str, arm: str, setup: Setup, seed: int, folder: Path, device: str, progress: bool = False
) -> Skills | None:
    """Options from the expert's demonstrations; kept in the run's folder."""
    if arm == "none":
        return None
    path = folder / "skills.safetensors"
    about = {name: value for name, value in asdict(setup).items() if name in DISCOVERY} | {"hidden": [*setup.hidden]}
    if path.exists():
        skills = Skills.load(path)
        check(skills.metadata["setup"] == about, f"the setup of {path}", about, "Use another --out.")
        return skills
    name, _, count = parts(arm)
    config: dict[str, Any] = {"num_options": int(count)} if count else {}
    if METHODS[name]["guide"] == "segments":
        config |= METHOD_PRESETS["compile-atari"]
    else:
        config["termination_cost"] = setup.termination_cost
    if "hidden" not in METHODS[name]:
        config["hidden"] = tuple(setup.hidden)
    if setup.epochs is not None:
        config["epochs"] = setup.epochs
    play = {"max_steps": setup.episode_steps, "epsilon": setup.epsilon, "seed": seed, "progress": progress}
    data = atari_demonstrations(game, setup.num_episodes, cache=folder.parent, **play)  # which all arms of a seed share
    saved = {"checkpoint": folder / "discovery.safetensors", "resume": True}
    skills = discover(data, name, seed=seed, device=device, progress=progress, **saved, **config).used()
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
    """One arm of one game with one seed, from wherever it was left.

    :param every: decisions between checkpoints
    :param progress: show how far this run is
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
        # total_steps may be more when it goes on; the rest of a preset may not change under its name
        about=setup | asdict(preset) | {"total_steps": None},
        progress=progress,
    ).run(given.steps)
    learner.save(folder / "agent.zip")
    return {
        "num_options": 0 if skills is None else skills.num_options,
        "mean_duration": learner.num_primitive_steps / learner.num_timesteps,
        "final_return": final_return(rows, given.steps),
        "curve": thinned(rows),
    }


def main(args: Args) -> list[dict]:
    """Runs what is missing, then writes the tables and the figure."""
    where = {"out": args.out, "every": args.checkpoint_every, "device": args.device}
    alone = args.processes == 1  # bars of several runs at a time would write over each other
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
