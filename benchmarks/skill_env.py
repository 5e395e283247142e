"""The overhead of skills: environment steps per second in PPO, with and without skills. Run it with::

    python benchmarks/skill_env.py
    python benchmarks/skill_env.py --game Pong --rounds 20

Both arms train on Atari RAM with the same settings, alternately in one process. Without skills each decision is one
environment step; with skills a decision can last many, and all of them are counted. The ratio should be at least 0.8.
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import tyro
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from pyro_options.discovery import build
from pyro_options.envs import SkillWrapper, atari_demonstrations, make_atari, ram
from pyro_options.experiments import write_results
from pyro_options.rl import SMDPPPO
from pyro_options.skills import Skills


@dataclass(frozen=True)
class Args:
    """Measure the overhead of skills."""

    game: str = "Breakout"
    num_options: int = 8
    """untrained linear options on the varying bits of the RAM; their actions do not affect the time they take"""
    max_duration: int = 15
    num_envs: int = 8
    n_steps: int = 64
    """decisions per environment and update"""
    rounds: int = 10
    seed: int = 0
    out: Path = Path("benchmarks/results/skill_env.json")


def make_skills(args: Args) -> Skills:
    data = atari_demonstrations(args.game, 2, max_steps=100, seed=args.seed)
    torch.manual_seed(args.seed)
    method = build("options-exact", data, num_options=args.num_options, hidden=(), skip_constant=True)
    weights = method.guide.weights.mean_log_weights()
    method.model.termination.initial_logit = -2.0  # durations similar to those of trained options
    return Skills(method.model.policy, method.model.termination, weights, data.packed)


def make_learner(args: Args, skills: Skills | None) -> SMDPPPO:
    def make():
        return SkillWrapper(Monitor(make_atari(args.game)), skills, max_duration=args.max_duration, observe=ram)

    env = DummyVecEnv([make] * args.num_envs)
    return SMDPPPO("MlpPolicy", env, n_steps=args.n_steps, batch_size=256, n_epochs=4, seed=args.seed, device="cpu")


def turn(learner: SMDPPPO) -> float:
    """Environment steps per second during one update."""
    before, start = learner.num_primitive_steps, time.process_time()
    learner.learn(1, reset_num_timesteps=False)  # collects a whole rollout, then updates once
    return (learner.num_primitive_steps - before) / (time.process_time() - start)


def main(args: Args) -> dict:
    torch.set_num_threads(1)
    learners = {"plain": make_learner(args, None), "skills": make_learner(args, make_skills(args))}
    for learner in learners.values():
        turn(learner)
    rates = {name: [] for name in learners}
    for _ in range(args.rounds):
        for name, learner in learners.items():
            rates[name].append(turn(learner))
    best = {name: max(values) for name, values in rates.items()}
    duration = learners["skills"].num_primitive_steps / learners["skills"].num_timesteps
    result = {"steps_per_second": best, "ratio": best["skills"] / best["plain"], "mean_duration": duration}
    print(
        f"{args.game}: skills / plain = {result['ratio']:.2f} in steps of the environment per second "
        f"(bar 0.80; a decision lasts {duration:.1f} steps)"
    )
    record = {
        "args": asdict(args) | {"out": str(args.out)},
        "rates": rates,
        **result,
    }
    write_results(args.out, record)
    return result


if __name__ == "__main__":
    main(tyro.cli(Args))
