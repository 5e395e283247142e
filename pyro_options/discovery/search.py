"""The search for the capacity of the policies and the shrinkage of their weights, by held-out likelihood."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from pyro_options.data.trajectories import Trajectories
from pyro_options.growth.verdict import total_and_error
from pyro_options.infer.trainer import Trainer
from pyro_options.skills.from_model import to_skills

from .capacity import Capacity, candidates_of

logger = logging.getLogger(__name__)

#: share of the epochs for which each candidate is trained
SHARE = 0.12

#: fewest epochs of a training that is searched: shorter trainings show too little, and take the simplest candidate
MIN_EPOCHS = 10

#: nats of all held-out episodes together by which a simpler candidate may be worse, if their standard error is less
TOLERANCE = 3.0


@dataclass(frozen=True)
class Trial:
    """A candidate after its short training."""

    capacity: Capacity
    trainer: Trainer
    scores: Tensor  # log-likelihood of each held-out episode
    steps: int  # in those episodes
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """JSON values; the log-likelihood in nats per step."""
        return {
            "hidden": list(self.capacity.hidden),
            "weight_scale": self.capacity.weight_scale,
            "held_out": float(self.scores.sum()) / self.steps,
            "seconds": self.seconds,
        }


def simplest(trials: Sequence[Trial]) -> Trial:
    """The simplest candidate that is not worse than the best by more than one standard error, or a few nats in all."""
    best = max(trials, key=lambda one: float(one.scores.sum()))
    for one in sorted(trials, key=lambda one: one.capacity.simplicity):
        loss, error = total_and_error(best.scores - one.scores)
        if one is best or loss <= max(TOLERANCE, error):
            return one
    return best


def search(
    begin: Callable[[Capacity], Trainer], judge: Trajectories, hidden: Any, weight_scale: Any, progress: bool = False
) -> tuple[Trial, list[Trial]]:
    """Trains candidates for a few epochs each; returns the simplest good one, to be continued, and all of them.

    First the widths of the state network are compared, then the scales of the prior with the width that was chosen.

    :param begin: makes a trainer with given capacity
    :param judge: held-out episodes
    :param hidden: widths, or :data:`AUTO`
    :param weight_scale: prior scale, or :data:`AUTO`
    """
    widths, scales = candidates_of(hidden, weight_scale)
    trials: list[Trial] = []
    bar = tqdm(total=len(widths) + len(scales), disable=not progress, unit="setting", dynamic_ncols=True)
    bar.set_description("capacity")

    def attempt(capacity: Capacity) -> None:
        trials.append(_trial(capacity, begin(capacity), judge))
        bar.update()

    for capacity in widths:
        attempt(capacity)
    chosen = simplest(trials)
    for capacity in scales:
        attempt(Capacity(chosen.capacity.hidden, capacity.weight_scale))
    bar.close()
    chosen = simplest([one for one in trials if one.capacity.hidden == chosen.capacity.hidden])
    logger.info("hidden = %s, weight_scale = %s", chosen.capacity.hidden, chosen.capacity.weight_scale)
    return chosen, trials


def _trial(capacity: Capacity, trainer: Trainer, judge: Trajectories) -> Trial:
    start = time.perf_counter()
    trainer.run(max(1, round(SHARE * trainer.config.epochs)))
    with torch.no_grad():
        scores = to_skills(trainer.model, trainer.guide, packed=judge.packed).episode_log_likelihoods(judge)
    return Trial(capacity, trainer, scores, judge.num_steps, time.perf_counter() - start)
