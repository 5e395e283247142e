"""Makes the plans of the expert for Montezuma's Revenge. Run it with::

    python benchmarks/montezuma_plans.py
    python benchmarks/montezuma_plans.py --starts 0 1 --max-steps 100000 --out out/plans.safetensors

For each of the 30 starts (1 to 30 no-op frames), the first phase of Go-Explore searches for a way to the key (100
points) and through the first door (400), unless one from another start works too; the way is then shortened. Starts
that the file already has are kept. A search takes 10 to 30 seconds of one core.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from pyro_options.envs.experts.exploration import Explorer
from pyro_options.envs.experts.montezuma import GAME, PLANS, cell, load_plans, save_plans
from pyro_options.envs.ram_game import start_states


@dataclass(frozen=True)
class Args:
    """Search for a way to the first door from every start."""

    starts: tuple[int, ...] = tuple(range(30))
    """0 for one no-op frame, 29 for thirty"""
    goal: float = 400
    """score to stop at"""
    max_steps: int = 500_000
    """emulator steps per start"""
    seed: int = 0
    out: Path = PLANS


def main(args: Args) -> dict[int, tuple[int, ...]]:
    explorer, states = Explorer(GAME, cell), start_states(GAME)
    plans = load_plans(args.out) if args.out.exists() else {}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for start in args.starts:
        if start in plans:
            continue
        begin = time.process_time()
        known = [plan for plan in plans.values() if explorer.score(states[start], plan) >= args.goal]
        if known:
            plans[start] = min(known, key=len)
            save_plans(args.out, plans)
            print(f"start {start}: a plan of another start reaches the goal too")
            continue
        found = explorer.explore(states[start], args.goal, args.max_steps, args.seed + start)
        if not found:
            print(f"start {start}: no reward in {args.max_steps} steps")
            continue
        best = found[-1]
        plans[start] = explorer.shortened(states[start], best.actions)
        save_plans(args.out, plans)
        print(
            f"start {start}: score {best.score:g} after {best.num_steps} steps of the emulator, "
            f"{len(best.actions)} actions, shortened to {len(plans[start])}, {time.process_time() - begin:.0f} s",
            flush=True,
        )
    return plans


if __name__ == "__main__":
    main(tyro.cli(Args))
