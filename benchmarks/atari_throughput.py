"""Emulator steps per second of the Atari study: what limits it, and what the vector environment gains. Run it with::

    OMP_NUM_THREADS=1 python benchmarks/atari_throughput.py
    OMP_NUM_THREADS=1 python benchmarks/atari_throughput.py --games Breakout --rounds 3

All ways play the same random decisions of eight environments, in turn in one process; steps are actions of four frames,
and time is that of the processor. ``wrapped`` is ``DummyVecEnv`` with a ``SkillWrapper`` and the Atari wrappers around
each game, ``vector`` is ``AtariVecEnv``, ``emulator`` is ale-py's bare ``ALEInterface``, which no environment on it can
exceed. ``pixels`` is ale-py's ``AtariVectorEnv``, which has no RAM. ``study`` includes learning, with the settings of
``examples/atari_ppo.py`` and skills; with 32 environments its rollouts are as large. It also finds out whether ``act``
holds Python's lock, so that threads would not help.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
import tyro
from stable_baselines3.common import atari_wrappers
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from pyro_options.envs import AtariVecEnv, SkillWrapper, make_atari, ram
from pyro_options.envs.ram_game import make_emulator, rom_path
from pyro_options.experiments import write_results
from pyro_options.options import CategoricalPolicy, Termination
from pyro_options.rl import SMDPPPO
from pyro_options.skills import Skills

BAR = 2.0
ROLLOUT = 1024  # decisions
PPO = {"batch_size": 256, "n_epochs": 4, "learning_rate": 2.5e-4, "clip_range": 0.1, "ent_coef": 0.01}


@dataclass(frozen=True)
class Args:
    """Measure emulator steps per second."""

    games: tuple[str, ...] = ("Breakout", "SpaceInvaders", "MontezumaRevenge")
    """with a fire button, which the wrappers press at the start"""
    num_envs: int = 8
    num_options: int = 8
    """random options with 64 hidden units"""
    max_duration: int = 4
    decisions: int = 40
    """per environment and round"""
    rounds: int = 3
    seed: int = 0
    out: Path = Path("benchmarks/results/atari_throughput.json")


class RamBits(gym.ObservationWrapper):
    """The RAM as 1024 bits."""

    def __init__(self, env: gym.Env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 1, (1024,), np.float32)

    def observation(self, observation):
        return np.unpackbits(observation).astype(np.float32)


def make_skills(num_actions: int, args: Args) -> Skills:
    torch.manual_seed(args.seed)
    policy = CategoricalPolicy(1024, args.num_options, num_actions, hidden=(64,))
    termination = Termination(1024, args.num_options, hidden=(64,), initial_logit=-1.0)
    return Skills(policy, termination, torch.zeros(args.num_options), packed=True)


def wrapped(game: str, skills: Skills | None, args: Args) -> VecEnv:
    def make():
        env = atari_wrappers.FireResetEnv(atari_wrappers.EpisodicLifeEnv(Monitor(make_atari(game))))
        env = RamBits(atari_wrappers.ClipRewardEnv(env))
        return SkillWrapper(env, skills, max_duration=args.max_duration, observe=ram)

    return DummyVecEnv([make] * args.num_envs)


def player(env: VecEnv, args: Args) -> Callable[[], float]:
    """A function that plays a round of random decisions and returns its steps per second."""
    rng, count = np.random.default_rng(args.seed), env.action_space.n
    env.seed(args.seed)
    env.reset()

    def play() -> float:
        start, steps = time.process_time(), 0
        for _ in range(args.decisions):
            infos = env.step(rng.integers(count, size=args.num_envs))[3]
            steps += sum(info["duration"] for info in infos)
        return steps / (time.process_time() - start)

    return play


def student(env: VecEnv, args: Args) -> Callable[[], float]:
    """A function that plays and learns from a rollout and returns its steps per second."""
    size = {"n_steps": ROLLOUT // env.num_envs, "policy_kwargs": {"net_arch": [128, 128]}}
    learner = SMDPPPO("MlpPolicy", env, seed=args.seed, device="cpu", **PPO, **size)

    def learn() -> float:
        start, before = time.process_time(), learner.num_primitive_steps
        learner.learn(1, reset_num_timesteps=False)
        return (learner.num_primitive_steps - before) / (time.process_time() - start)

    return learn


def run_emulator(emulator, actions) -> None:
    legal = emulator.getMinimalActionSet()
    for action in actions:
        emulator.act(legal[action])
        emulator.getRAM()
        if emulator.game_over():
            emulator.reset_game()


def bare(game: str, args: Args) -> Callable[[], float]:
    emulator, rng, count = make_emulator(game), np.random.default_rng(args.seed), args.decisions * args.num_envs

    def play() -> float:
        actions = rng.integers(len(emulator.getMinimalActionSet()), size=count).tolist()
        start = time.process_time()
        run_emulator(emulator, actions)
        return count / (time.process_time() - start)

    return play


def pixels(game: str, args: Args) -> Callable[[], float]:
    from ale_py import AtariVectorEnv

    env, rng = AtariVectorEnv(rom_path(game).stem, args.num_envs, num_threads=1), np.random.default_rng(args.seed)
    env.reset(seed=args.seed)

    def play() -> float:
        start = time.process_time()
        for _ in range(args.decisions):
            env.step(rng.integers(env.single_action_space.n, size=args.num_envs))
        return args.decisions * args.num_envs / (time.process_time() - start)

    return play


def act_holds_lock(game: str) -> bool:
    """Whether no other thread of Python runs while the emulator acts, so that threads cannot help."""
    emulator, times = make_emulator(game, frame_skip=2000), []

    def act() -> None:
        times.append(time.perf_counter())
        emulator.act(0)
        times.append(time.perf_counter())

    thread, seen = threading.Thread(target=act), []
    thread.start()
    while thread.is_alive():
        seen.append(time.perf_counter())
    start, end = times
    margin = 0.2 * (end - start)
    return not any(start + margin < moment < end - margin for moment in seen)


def measure(game: str, args: Args) -> dict:
    skills = make_skills(len(make_emulator(game).getMinimalActionSet()), args)
    options = {"max_duration": args.max_duration}
    ways = {
        "wrapped": player(wrapped(game, None, args), args),
        "vector": player(AtariVecEnv(game, args.num_envs, **options), args),
        "wrapped with skills": player(wrapped(game, skills, args), args),
        "vector with skills": player(AtariVecEnv(game, args.num_envs, skills, **options), args),
        "study wrapped": student(wrapped(game, skills, args), args),
        "study vector": student(AtariVecEnv(game, args.num_envs, skills, **options), args),
        "study vector of 32": student(AtariVecEnv(game, 32, skills, **options), args),
        "emulator": bare(game, args),
        "pixels": pixels(game, args),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(args.rounds):
        for name, play in ways.items():
            rates[name].append(play())
    best = {name: max(values) for name, values in rates.items()}
    return {
        "game": game,
        "steps_per_second": best,
        "gain": best["vector"] / best["wrapped"],
        "gain_with_skills": best["vector with skills"] / best["wrapped with skills"],
        "gain_of_study": best["study vector"] / best["study wrapped"],
        "gain_of_study_with_32": best["study vector of 32"] / best["study wrapped"],
        "emulator_to_wrapped": best["emulator"] / best["wrapped with skills"],
        "emulator_to_study": best["emulator"] / best["study wrapped"],
        "act_holds_lock": act_holds_lock(game),
        "rates": rates,
    }


def main(args: Args) -> list[dict]:
    torch.set_num_threads(1)
    rows = [measure(game, args) for game in args.games]
    for row in rows:
        print(
            f"{row['game']:16s} vector / wrapped = {row['gain']:.2f}, with skills {row['gain_with_skills']:.2f} "
            f"and learning {row['gain_of_study']:.2f}, with 32 {row['gain_of_study_with_32']:.2f} (bar {BAR:.1f}); "
            f"the bare emulator / wrapped with skills = {row['emulator_to_wrapped']:.2f}, and learning "
            f"{row['emulator_to_study']:.2f}; act holds Python's lock: {row['act_holds_lock']}"
        )
    write_results(args.out, {"args": asdict(args) | {"out": str(args.out)}, "results": rows})
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
