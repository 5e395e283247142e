"""Returns of the Atari experts, beside those of random play. Run it with::

    python benchmarks/experts.py
    python benchmarks/experts.py --games Pong --num-episodes 3 --num-demonstrations 0
    python benchmarks/experts.py --kinds expert network search --games Alien Asterix --out out/experts.json

Games are ``NoFrameskip-v4`` with frame skip 4; episodes start after 1 to 30 no-op frames and contain random actions.
Random play is of whole games, while those of experts are cut; networks play whole games as well.

Beside the expert stands its clone, which shows what its demonstrations are worth to a learner that sees RAM: behaviour
cloning as in ``examples/atari_ppo.py``, of episodes that are recorded as there, then whole games of the clone's most
probable actions, of 3000 actions at most. ``--kinds`` measures others than the one that records demonstrations: the
network alone, and a search among random plans. All returns are written to ``--out`` after each game, with the command
and the seed; games that the file has with the same settings are kept.
"""

import json
import time
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import torch
import tyro

from pyro_options.data.collection import rollout
from pyro_options.discovery import discover
from pyro_options.envs import EXPERTS, make_atari
from pyro_options.envs.experts import PolicyExpert, SearchExpert
from pyro_options.envs.experts.policy import TRAINED
from pyro_options.experiments import write_results

#: actions after which an expert's episode is cut; random play scores slowly in the games that are cut late
MAX_STEPS = {"Asteroids": 1200, "ChopperCommand": 1200, "SpaceInvaders": 800, "Alien": 300}
OTHERS = 400

#: how the study of examples/atari_ppo.py records demonstrations and clones them
STUDY: dict[str, Any] = {"max_steps": 300, "epsilon": 0.05}
HIDDEN = (64,)
LONGEST = 3000  # actions of a clone's game
UNSEEN = 100_000  # seed of its games, which is not that of the demonstrations

#: games in which a network scores more when it draws its actions than with the most probable ones
DRAWN = ("Asteroids", "ChopperCommand")

Kind = Literal["expert", "network", "search"]


@dataclass(frozen=True)
class Args:
    """Measure the experts."""

    games: tuple[str, ...] = tuple(EXPERTS)
    num_episodes: int = 20
    """episodes per game"""
    max_steps: int | None = None
    """cut an expert's episode after this many actions; by default 400 to 1200, by game"""
    epsilon: float = 0.01
    """probability of a random action"""
    num_demonstrations: int = 60
    """episodes that the expert is cloned from; 0 for no clone"""
    kinds: tuple[Kind, ...] = ("expert",)
    """what plays: the expert, or where it is a guided search also its network, and a search among random plans"""
    seed: int = 0
    out: Path = Path("benchmarks/results/experts.json")
    progress: bool = True


def maker(game: str, kind: Kind):
    """What makes the expert that is measured; ``None`` if there is no such kind for the game."""
    if kind == "expert":
        return EXPERTS[game]
    if game not in TRAINED:
        return None
    drawing = {"deterministic": game not in DRAWN}
    return partial(SearchExpert, game) if kind == "search" else partial(PolicyExpert, game, **drawing)


def played(game: str, policy, num_episodes: int, max_steps: int | None, seed: int, epsilon: float = 0.0, **options):
    """Games of a policy."""
    env = make_atari(game)
    try:
        return rollout(env, policy, num_episodes, max_steps, seed, epsilon=epsilon, packed=True, **options)
    finally:
        env.close()


def whole_returns(game: str, kind: Kind, args: Args) -> torch.Tensor | None:
    """Returns of whole games of a network, which plays fast; ``None`` for other experts."""
    expert = maker(game, kind)()
    if not isinstance(expert, PolicyExpert):
        return None
    return played(game, expert, args.num_episodes, None, args.seed, args.epsilon).returns


def clone_returns(game: str, kind: Kind, args: Args) -> torch.Tensor:
    """Returns of games of a clone of the expert."""
    expert = maker(game, kind)()
    shown = played(game, expert, args.num_demonstrations, seed=args.seed, progress=args.progress, **STUDY)
    alone: dict[str, Any] = {"hidden": HIDDEN, "seed": args.seed, "device": "cpu", "trust": False}
    clone = discover(shown.trajectories, "bc", progress=args.progress, **alone).used()
    return played(game, lambda ram: clone.predict(ram, 0), args.num_episodes, LONGEST, UNSEEN).returns


def limit(game: str, args: Args) -> int:
    """The actions after which an episode of this game is cut."""
    return MAX_STEPS.get(game, OTHERS) if args.max_steps is None else args.max_steps


def measure(game: str, kind: Kind, args: Args) -> dict:
    """Returns and lengths of episodes of one game."""
    start, max_steps, expert = time.process_time(), limit(game, args), maker(game, kind)()
    done = played(game, expert, args.num_episodes, max_steps, args.seed, args.epsilon, progress=args.progress)
    seconds, returns = time.process_time() - start, done.returns
    random = played(game, lambda ram: 0, args.num_episodes, None, args.seed, epsilon=1.0).returns
    whole = whole_returns(game, kind, args)
    clone = clone_returns(game, kind, args) if args.num_demonstrations else None
    return {
        "game": game,
        "kind": kind,
        "expert": type(expert).__name__,
        "max_steps": max_steps,
        "mean_return": float(returns.mean()),
        "standard_deviation": float(returns.std()) if len(returns) > 1 else 0.0,
        "min_return": float(returns.min()),
        "max_return": float(returns.max()),
        "random_mean_return": float(random.mean()),
        "whole_mean_return": None if whole is None else float(whole.mean()),
        "clone_mean_return": None if clone is None else float(clone.mean()),
        "ended": int(done.terminated.sum()),
        "returns": returns.tolist(),
        "random_returns": random.tolist(),
        "whole_returns": None if whole is None else whole.tolist(),
        "clone_returns": None if clone is None else clone.tolist(),
        "lengths": done.trajectories.lengths.tolist(),
        "milliseconds_per_action": 1000 * seconds / done.trajectories.num_steps,
    }


def settings(args: Args) -> dict:
    """What a kept game must have been measured with."""
    names = "num_episodes", "epsilon", "num_demonstrations", "seed"
    return {name: value for name, value in asdict(args).items() if name in names}


def kept(args: Args) -> dict[tuple[str, Kind], dict]:
    """The games of the file that were measured with the same settings."""
    if not args.out.exists():
        return {}
    record = json.loads(args.out.read_text())
    same = all(record["args"].get(name) == value for name, value in settings(args).items())
    rows = [row for row in record["results"] if row.get("max_steps") == limit(row["game"], args)]
    return {(row["game"], row["kind"]): row for row in rows} if same else {}


def describe(row: dict) -> str:
    random = row["random_mean_return"]
    against = f"{row['mean_return'] / random:.1f} times the" if random > 0 else "against the"
    clone = row["clone_mean_return"]
    told = "" if clone is None else f"; {clone:.1f} of its clone"
    return (
        f"{row['game']:16s} {row['kind']:7s} mean return {row['mean_return']:7.1f} "
        f"[{row['min_return']:g}, {row['max_return']:g}], {against} {random:.1f} of random play{told}; "
        f"{row['milliseconds_per_action']:.1f} ms per action"
    )


def main(args: Args) -> list[dict]:
    rows = kept(args)
    wanted = [(game, kind) for game, kind in product(args.games, args.kinds) if maker(game, kind) is not None]
    for game, kind in wanted:
        if (game, kind) not in rows:
            rows[game, kind] = measure(game, kind, args)
            record = {"args": settings(args), "results": [rows[one] for one in sorted(rows)]}
            write_results(args.out, record)
        print(describe(rows[game, kind]), flush=True)
    return [rows[one] for one in wanted]


if __name__ == "__main__":
    main(tyro.cli(Args))
