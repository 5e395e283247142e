"""Trains the networks of ``PolicyExpert`` with PPO. Run it with::

    python benchmarks/train_experts.py
    python benchmarks/train_experts.py --games Alien --total-steps 200000 --out out/policies

PPO plays on the bits of the RAM, with clipped rewards and an episode per life. The learning rate falls to zero. Each
game takes about ten minutes of one core. The actor alone is written, as ``<Game>.safetensors`` in half
precision. Checkpoints are in ``--work``; an interrupted training resumes from the last one with the same result, and
games that are done with the same settings are not trained again.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import tyro

from pyro_options.envs import AtariVecEnv
from pyro_options.envs.experts.policy import TRAINED, asset, save_policy
from pyro_options.experiments import provenance
from pyro_options.persistence import explained_interrupts
from pyro_options.rl import SMDPPPO, CurveCallback, PartwiseLearning

FRAME_SKIP = 4

#: of PPO, apart from the learning rate
SETTINGS: dict[str, Any] = {
    "n_steps": 128,
    "batch_size": 512,
    "n_epochs": 4,
    "clip_range": 0.1,
    "ent_coef": 0.01,
    "policy_kwargs": {"net_arch": {"pi": [128, 64], "vf": [128, 64]}},
}


@dataclass(frozen=True)
class Args:
    """Train experts on RAM."""

    games: tuple[str, ...] = TRAINED
    total_steps: int = 1_500_000
    """actions per game"""
    num_envs: int = 16
    learning_rate: float = 5e-4
    """at the start; it falls to zero"""
    gamma: float = 0.99
    seed: int = 0
    checkpoint_every: int = 100_000
    """actions between checkpoints"""
    out: Path = asset("Alien").parent
    """folder for the networks"""
    work: Path = Path("out/train_experts")
    """folder for checkpoints"""
    progress: bool = True


class FallingRate(CurveCallback):
    """Lets the learning rate fall to zero over the whole training, of which a part does not know."""

    def __init__(self, rows: list[dict[str, float]], rate: float, total_steps: int):
        super().__init__(rows)
        self.rate, self.total_steps = rate, total_steps

    def _on_rollout_end(self) -> None:
        super()._on_rollout_end()
        model: Any = self.model
        rate = self.rate * max(0.0, 1 - model.num_timesteps / self.total_steps)
        model.lr_schedule = lambda left: rate


def actor(learner: SMDPPPO) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Weight and bias of each layer from observations to the logits of actions."""
    policy: Any = learner.policy
    modules = [*policy.mlp_extractor.policy_net, policy.action_net]
    return [(module.weight, module.bias) for module in modules if isinstance(module, torch.nn.Linear)]


def train(game: str, args: Args, origin: dict[str, Any]) -> dict[str, Any]:
    """Trains the network of a game and writes it; returns what the file says about it.

    :param origin: commit and versions
    """
    args.work.mkdir(parents=True, exist_ok=True)
    rates: dict[str, Any] = {"gamma": args.gamma, "learning_rate": args.learning_rate}
    about = SETTINGS | rates | {"game": game, "num_envs": args.num_envs, "total_steps": args.total_steps}
    learner, rows = PartwiseLearning(
        args.work / f"{game}.safetensors",
        lambda: AtariVecEnv(game, args.num_envs, gamma=args.gamma, frame_skip=FRAME_SKIP),
        lambda envs: SMDPPPO("MlpPolicy", envs, seed=args.seed, device="cpu", **SETTINGS, **rates),
        partial(FallingRate, rate=args.learning_rate, total_steps=args.total_steps),
        every=args.checkpoint_every,
        seed=args.seed,
        about=about,
        progress=args.progress,
    ).run(args.total_steps)
    about |= {"frame_skip": FRAME_SKIP, "seed": args.seed, "steps": learner.num_timesteps, "origin": origin}
    about["mean_return"] = rows[-1].get("return")  # of the last 100 games of training, with sampled actions
    args.out.mkdir(parents=True, exist_ok=True)
    save_policy(args.out / f"{game}.safetensors", actor(learner), about)
    return about


def main(args: Args) -> list[dict[str, Any]]:
    origin = {name: value for name, value in provenance().items() if name in ("commit", "python", "versions")}
    found = []
    for game in args.games:
        found.append(train(game, args, origin))
        score = found[-1]["mean_return"]
        told = "no game ended" if score is None else f"mean return {score:.1f} in the last games"
        print(f"{game}: {found[-1]['steps']} actions, {told}", flush=True)
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    with explained_interrupts():
        main(tyro.cli(Args))
