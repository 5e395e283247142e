"""What makes options longer, and what that does to their number. Run it with::

    python benchmarks/option_lengths.py
    python benchmarks/option_lengths.py --variants plain cost_2 --tasks five_options --seeds 100 --out /tmp/lengths.json

Every variant changes the prior over paths of the model that ``discover`` trains, and nothing else:

- ``cost_C``: every termination costs C nats (``termination_cost``); ``_judged_without``: but moves of growth are judged
  by the likelihood alone; ``_fixed_K``: with K options, and no growth
- ``code_L``: choosing option k costs (1 + L) times its code length -log η_k, after LOVE (Jiang et al., 2022)
- ``shared``: all options have the same terminations ψ(s)
- ``beta``: a Beta prior on the mean ψ of each option, whose parameters are fitted to all options by their moments
- ``least_M``: options can only terminate at every M-th step

Smaller data sets, fewer epochs and one start without a search for capacity, so that a run takes seconds. Skills are
scored without costs and constraints: they change training only. Every run is written to ``--out`` as soon as it is
done, and finished runs are not repeated.
"""

import time
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import pyro
import torch
import tyro
from suite import HELD_OUT, scores
from suite_tasks import TASKS
from torch import Tensor, nn

from pyro_options.discovery import discover, registry
from pyro_options.experiments import run_grid
from pyro_options.handlers import GrowthMessenger
from pyro_options.models import OptionHMM
from pyro_options.options import Termination

EPISODES = {"five_options": 30, "grid_coordinates": 60, "waypoints_clipped": 60}
EPOCHS = 40
NEVER = -30.0  # logit of an impossible termination

#: arguments of :func:`run` that a variant stands for
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "cost_0.5": {"cost": 0.5},
    "cost_2": {"cost": 2.0},
    "cost_2_judged_without": {"cost": 2.0, "judge_cost": False},
    "cost_0_fixed_8": {"num_options": 8},
    "cost_0.5_fixed_8": {"num_options": 8, "cost": 0.5},
    "cost_2_fixed_8": {"num_options": 8, "cost": 2.0},
    "code_0.5": {"code": 0.5},
    "code_2": {"code": 2.0},
    "shared": {"shared": True},
    "beta": {"beta": True},
    "least_3": {"least": 3},
}


@dataclass(frozen=True)
class Args:
    """Compare ways to longer options."""

    tasks: tuple[str, ...] = tuple(EPISODES)
    variants: tuple[str, ...] = tuple(VARIANTS)
    seeds: tuple[int, ...] = (100,)
    processes: int = 1
    out: Path = Path("benchmarks/results/option_lengths.json")


class SharedTermination(Termination):
    """The same ψ(s) for all options: the mean of heads that start equal, and so stay equal."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for one in self.heads.parameters():
            nn.init.zeros_(one)

    def logits(self, outputs: Tensor) -> Tensor:
        logits = super().logits(outputs)
        return logits.mean(-1, keepdim=True).expand_as(logits)


def beta_by_moments(rates: Tensor) -> tuple[Tensor, Tensor]:
    """Parameters of the Beta distribution with the mean and variance of these rates; at most 1000 pseudo-counts."""
    mean, variance = rates.mean(), rates.var(unbiased=False)
    count = (mean * (1 - mean) / variance.clamp(min=1e-12) - 1).clamp(2.0, 1000.0)
    return mean * count, (1 - mean) * count


class Lengths(OptionHMM):
    """Options with another prior over the lengths of segments."""

    def __init__(self, *args, code: float = 0.0, beta: bool = False, least: int = 1, **kwargs):
        super().__init__(*args, **kwargs)
        self.code, self.beta, self.least = code, beta, least

    def _prior_path(self, log_weights, termination_logits, episodes):
        if self.least > 1:
            on_time = torch.arange(termination_logits.shape[-2], device=termination_logits.device) % self.least == 0
            termination_logits = torch.where(on_time.unsqueeze(-1), termination_logits, NEVER)
        return super()._prior_path((1 + self.code) * log_weights, termination_logits, episodes)

    def forward(self, episodes, log_weights=None):
        if self.beta:
            rates = torch.sigmoid(self.termination(episodes.states))[episodes.mask].mean(0)  # (K,)
            prior = torch.distributions.Beta(*beta_by_moments(rates.detach()))
            pyro.factor("terminations", prior.log_prob(rates.clamp(1e-6, 1 - 1e-6)).sum())
        return super().forward(episodes, log_weights)


def run(task: str, variant: str, seed: int) -> dict[str, Any]:
    """Discovers and scores the skills of one task with one variant."""
    torch.set_num_threads(1)
    truth = TASKS[task](seed, episodes=EPISODES[task])
    chosen = dict(VARIANTS[variant])
    judge_cost, shared = chosen.pop("judge_cost", True), chosen.pop("shared", False)
    cost, fixed = chosen.pop("cost", 0.0), chosen.pop("num_options", None)

    def make(pieces: registry.Pieces) -> OptionHMM:
        config, policy = pieces.config, pieces.policy()
        termination = pieces.termination(policy)
        if shared:
            termination = SharedTermination(
                pieces.data.state_dim, pieces.num_options, config.hidden, termination.network
            )
        return Lengths(policy, termination, pieces.prior, config.alpha, cost, **chosen)

    def step_without_cost(self, *args, **kwargs):
        with mock.patch.object(self.modules[0], "termination_cost", 0.0):
            return judged(self, *args, **kwargs)

    judged, start = GrowthMessenger.step, time.process_time()
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings(action="ignore"))
        stack.enter_context(mock.patch.dict(registry.MODELS, {"options": make}))
        if not judge_cost:
            stack.enter_context(mock.patch.object(GrowthMessenger, "step", step_without_cost))
        told = {} if fixed is None else {"num_options": fixed}
        skills = discover(
            truth.trajectories,
            "options-exact",
            held_out=HELD_OUT,
            epochs=EPOCHS,
            restarts=1,
            hidden=(),
            seed=seed,
            device="cpu",
            progress=False,
            trust=False,
            **told,
        )
    found = scores(skills, truth)
    del found["segmentation"]
    return found | {
        "true_options": truth.num_options,
        "num_options": skills.num_options,
        "held_out_log_likelihood": skills.metadata["log_likelihood"]["held_out"],
        "cpu_seconds": time.process_time() - start,
    }


def summary(rows: list[dict]) -> list[str]:
    """A line per task and variant: options in use, accuracy, boundary F1, length and held-out nats of every seed."""
    lines = ["| task | variant | in use | accuracy | boundary F1 | length | held-out nats |", "|---" * 7 + "|"]
    for task, variant in dict.fromkeys((row["task"], row["variant"]) for row in rows):
        mine = [row for row in rows if (row["task"], row["variant"]) == (task, variant)]
        forms = {"accuracy": ".2f", "boundary_f1": ".2f", "mean_segment_length": ".1f"}
        forms |= {"held_out_log_likelihood": ".2f"}
        cells = [", ".join(f"{row[key]:{form}}" for row in mine) for key, form in forms.items()]
        used = ", ".join(str(row["used_options"]) for row in mine)
        lines.append(f"| {task} ({mine[0]['true_options']}) | {variant} | {used} | " + " | ".join(cells) + " |")
    return lines


def main(args: Args) -> list[dict]:
    grid = {
        f"{task}, {variant}, seed {seed}": {"task": task, "variant": variant, "seed": seed}
        for seed, variant, task in product(args.seeds, args.variants, args.tasks)
    }
    rows = run_grid(run, grid, args.out, args.processes)
    print("\n".join(summary(rows)))
    return rows


if __name__ == "__main__":
    main(tyro.cli(Args))
