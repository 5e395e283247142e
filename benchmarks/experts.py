"""Returns of the scripted Atari experts. Run it with::

    python benchmarks/experts.py
    python benchmarks/experts.py --games Pong --num-episodes 3

Games are ``NoFrameskip-v4`` with frame skip 4; episodes start after 1 to 30 no-op frames and contain random actions.
All returns are written to ``--out``, with the command and the seed.
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path

import tyro

from pyro_options.envs import expert_rollouts
from pyro_options.experiments import write_results


@dataclass(frozen=True)
class Args:
    """Measure the scripted experts."""

    games: tuple[str, ...] = ("Breakout", "Pong", "Freeway")
    num_episodes: int = 10
    """episodes per game"""
    max_steps: int = 6000
    """cut an episode after this many actions"""
    epsilon: float = 0.01
    """probability of a random action"""
    seed: int = 0
    out: Path = Path("benchmarks/results/experts.json")
    progress: bool = True


def measure(game: str, args: Args) -> dict:
    """Returns and lengths of episodes of one game."""
    start = time.perf_counter()
    done = expert_rollouts(
        game, args.num_episodes, args.max_steps, args.seed, epsilon=args.epsilon, progress=args.progress
    )
    returns = done.returns
    return {
        "game": game,
        "mean_return": float(returns.mean()),
        "standard_deviation": float(returns.std()) if len(returns) > 1 else 0.0,
        "min_return": float(returns.min()),
        "max_return": float(returns.max()),
        "ended": int(done.terminated.sum()),
        "returns": returns.tolist(),
        "lengths": done.trajectories.lengths.tolist(),
        "seconds": time.perf_counter() - start,
    }


def main(args: Args) -> list[dict]:
    rows = [measure(game, args) for game in args.games]
    for row in rows:
        print(
            f"{row['game']:10s} mean return {row['mean_return']:7.2f} ± {row['standard_deviation']:6.2f} "
            f"[{row['min_return']:g}, {row['max_return']:g}], {row['ended']} of {args.num_episodes} episodes "
            f"ended within {args.max_steps} actions"
        )
    record = {
        "args": asdict(args) | {"out": str(args.out)},
        "results": rows,
    }
    write_results(args.out, record)
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
