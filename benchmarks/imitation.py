"""Returns of skills without any reinforcement learning: each option alone, and all options combined. Run it with::

    python benchmarks/imitation.py --processes 2
    python benchmarks/imitation.py --games Freeway --arms bc options-exact@8 --seeds 0

A method discovers options in demonstrations of a scripted expert. Then every option in use plays whole games, and so
does ``skills.imitation()``, which infers the active option. Settings are those of ``examples/atari_ppo.py``; ``bc`` is
behaviour cloning. Likelihoods are of held-out episodes. Every run is written to ``--out`` as soon as it is done, and
finished runs are not repeated.
"""

from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import tyro

from pyro_options.data import rollout
from pyro_options.discovery import discover
from pyro_options.envs import EXPERTS, atari_demonstrations, make_atari
from pyro_options.experiments import run_grid

UNSEEN = 50_000  # offset of the seed of held-out demonstrations


@dataclass(frozen=True)
class Args:
    """Evaluate skills in games, without reinforcement learning."""

    games: tuple[str, ...] = ("Freeway", "Breakout")
    arms: tuple[str, ...] = ("bc", "options-exact", "options-exact@8", "ddo@8")
    """methods, with @K to fix the number of options"""
    seeds: tuple[int, ...] = (0, 1, 2)
    """of demonstrations and discovery"""
    num_episodes: int = 300
    """episodes of the expert, to discover options in"""
    epsilon: float = 0.05
    """probability that the expert acts at random"""
    hidden: int = 64
    """width of the shared state network"""
    epochs: int | None = None
    """of discovery; by default those of discover"""
    num_games: int = 10
    """games per option"""
    max_steps: int = 3000
    """cut a game after this many actions"""
    processes: int = 1
    """runs at a time, each on one thread"""
    cache: Path = Path("out/imitation")
    """folder for demonstrations"""
    out: Path = Path("benchmarks/results/imitation.json")


def mean_return(game: str, policy, num_games: int, max_steps: int) -> float:
    """Mean return of a policy over games with other seeds than the demonstrations."""
    env = make_atari(game)
    try:
        return float(rollout(env, policy, num_games, max_steps, seed=2 * UNSEEN, packed=True).returns.mean())
    finally:
        env.close()


def run(
    game: str,
    arm: str,
    seed: int,
    num_episodes: int,
    epsilon: float,
    hidden: int,
    epochs: int | None,
    num_games: int,
    max_steps: int,
    *,
    cache: Path,
) -> dict:
    """Discovers skills, and plays games with each and with all of them."""
    expert = {"max_steps": 300, "epsilon": epsilon, "cache": cache}
    data = atari_demonstrations(game, num_episodes, seed=seed, **expert)
    unseen = atari_demonstrations(game, max(1, num_episodes // 6), seed=seed + UNSEEN, **expert)
    method, _, count = arm.partition("@")
    fixed = {"num_options": int(count)} if count else {}
    settings = {"hidden": (hidden,), "epochs": epochs, "seed": seed, "device": "cpu", "progress": False}
    skills = discover(data, method, **settings, **fixed).used()
    each = [lambda seen, k=k: skills.predict(seen, k) for k in range(skills.num_options)]
    return {
        "num_options": skills.num_options,
        "log_likelihood": skills.log_likelihood(unseen),
        "usage": skills.summary.usage.tolist(),
        "alone": [mean_return(game, policy, num_games, max_steps) for policy in each],
        "together": mean_return(game, skills.imitation(), num_games, max_steps),
        "expert": mean_return(game, EXPERTS[game](4), num_games, max_steps),
    }


def main(args: Args) -> list[dict]:
    names = "num_episodes", "epsilon", "hidden", "epochs", "num_games", "max_steps"
    sizes = {name: getattr(args, name) for name in names}
    grid = {
        f"{game}, {arm}, seed {seed}": {"game": game, "arm": arm, "seed": seed} | sizes
        for game, seed, arm in product(args.games, args.seeds, args.arms)
    }
    rows = run_grid(partial(run, cache=args.cache), grid, args.out, args.processes)
    for row in rows:
        print(
            f"{row['name']}: {row['num_options']} options, {row['log_likelihood']:.3f} nats per unseen step, "
            f"best option {max(row['alone']):.1f}, together {row['together']:.1f}, expert {row['expert']:.1f}"
        )
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
